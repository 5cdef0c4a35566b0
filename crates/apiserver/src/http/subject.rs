//! The user of a client certificate: common name = user, organizations = groups.
//!
//! The certificate was verified by TLS. Reads only the part of DER that is needed.

use crate::auth::User;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
/// UTF8String, PrintableString, TeletexString, IA5String: all read as UTF-8.
const TEXTS: [u8; 4] = [0x0c, 0x13, 0x14, 0x16];

/// The user of a verified certificate; `None` if it has no common name.
pub(crate) fn user_of_certificate(der: &[u8]) -> Option<User> {
    let der = rustls_pki_types::CertificateDer::from(der);
    let certificate = webpki::EndEntityCert::try_from(&der).ok()?;
    user_of_subject(certificate.subject())
}

/// `subject` is the content of the Name, without its own tag.
fn user_of_subject(subject: &[u8]) -> Option<User> {
    let mut name = String::new();
    let mut groups = Vec::new();
    let mut rest = subject;
    while !rest.is_empty() {
        let (mut set, after) = element(rest, SET)?;
        rest = after;
        while !set.is_empty() {
            let (pair, after) = element(set, SEQUENCE)?;
            set = after;
            let (kind, value) = element(pair, OBJECT_IDENTIFIER)?;
            match kind {
                COMMON_NAME => name = text(value)?,
                ORGANIZATION => groups.push(text(value)?),
                _ => {}
            }
        }
    }
    if name.is_empty() { None } else { Some(User::authenticated(name, groups)) }
}

fn text(value: &[u8]) -> Option<String> {
    let tag = *value.first().filter(|tag| TEXTS.contains(tag))?;
    let (content, _) = element(value, tag)?;
    String::from_utf8(content.to_vec()).ok()
}

/// The content of the element at the start, which must have this tag, and what follows it.
fn element(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => (usize::from(*rest.first()?), &rest[1..]),
        0x82 => (usize::from(*rest.first()?) << 8 | usize::from(*rest.get(1)?), &rest[2..]),
        _ => return None,
    };
    (found == tag && rest.len() >= length).then(|| rest.split_at(length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn common_name_and_organizations_are_found() {
        let part = |oid: u8, text: &str| {
            let mut out =
                vec![SET, u8::try_from(text.len() + 9).unwrap(), SEQUENCE, u8::try_from(text.len() + 7).unwrap()];
            out.extend([OBJECT_IDENTIFIER, 3, 0x55, 4, oid, 0x0c, u8::try_from(text.len()).unwrap()]);
            out.extend(text.as_bytes());
            out
        };
        let subject = [part(0x0a, "dev"), part(0x06, "DE"), part(0x0a, "ops"), part(0x03, "jane")].concat();
        let user = user_of_subject(&subject).unwrap();
        assert_eq!((user.name.as_str(), user.groups.join(" ").as_str()), ("jane", "dev ops system:authenticated"));
        assert_eq!(user_of_subject(&part(0x0a, "dev")), None);
        assert_eq!(user_of_certificate(b"junk"), None);
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = user_of_subject(&bytes);
        }
    }
}
