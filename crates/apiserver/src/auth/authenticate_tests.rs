//! Tokens stop working with the objects that they name, with time, and for other audiences.

use std::sync::atomic::{AtomicI64, Ordering};

use super::*;
use crate::auth::jwt::BoundTo;

#[derive(Default)]
struct Objects {
    uids: Mutex<HashMap<(String, String, String), String>>,
    secrets: Mutex<HashMap<(String, String), Vec<u8>>>,
}

impl Objects {
    fn put(&self, resource: &str, namespace: &str, name: &str, uid: &str) {
        self.uids.lock().unwrap().insert((resource.into(), namespace.into(), name.into()), uid.into());
    }
}

impl TokenObjects for Objects {
    fn uid(&self, resource: &str, namespace: &str, name: &str) -> Option<String> {
        self.uids.lock().unwrap().get(&(resource.into(), namespace.into(), name.into())).cloned()
    }

    fn secret_token(&self, namespace: &str, name: &str) -> Option<Vec<u8>> {
        self.secrets.lock().unwrap().get(&(namespace.into(), name.into())).cloned()
    }
}

struct Fixture {
    authenticator: Authenticator,
    objects: Arc<Objects>,
    now: Arc<AtomicI64>,
}

fn fixture() -> Fixture {
    let objects = Arc::new(Objects::default());
    objects.put("serviceaccounts", "ns", "sa", "u1");
    let now = Arc::new(AtomicI64::new(1000));
    let clock_now = Arc::clone(&now);
    let clock: Clock = Arc::new(move || Timestamp::from_second(clock_now.load(Ordering::SeqCst)).unwrap());
    let key = Arc::new(TokenKey::generate().unwrap());
    let authenticator =
        Authenticator::new(key, Issuer::default(), Arc::clone(&objects) as Arc<dyn TokenObjects>, clock);
    Fixture { authenticator, objects, now }
}

fn bound(fixture: &Fixture, change: impl FnOnce(&mut Claims)) -> Secret {
    let issuer = fixture.authenticator.issuer().clone();
    let mut claims = Claims {
        iss: issuer.url,
        aud: issuer.audiences,
        sub: "system:serviceaccount:ns:sa".to_owned(),
        exp: Some(2000),
        kubernetes: Some(BoundTo {
            namespace: "ns".to_owned(),
            serviceaccount: ObjectRef { name: "sa".to_owned(), uid: "u1".to_owned() },
            ..BoundTo::default()
        }),
        ..Claims::default()
    };
    change(&mut claims);
    fixture.authenticator.key().sign(&claims).unwrap()
}

fn name(fixture: &Fixture, token: &Secret) -> Result<String, TokenError> {
    fixture.authenticator.token(token.expose(), &[]).map(|found| found.user.name)
}

#[test]
fn a_static_token_is_its_user() {
    let fixture = fixture();
    let token = Secret::new("abc");
    fixture.authenticator.add_token(&token, User::authenticated("jane", []));
    assert_eq!(name(&fixture, &token), Ok("jane".to_owned()));
    assert_eq!(name(&fixture, &Secret::new("abd")), Err(TokenError::NotOurs));
    assert!(!format!("{:?}", fixture.authenticator).contains("abc"));
}

#[test]
fn a_bound_token_is_invalid_after_expiry_or_deletion_of_account_or_object() {
    let fixture = fixture();
    let token = bound(&fixture, |_| ());
    assert_eq!(name(&fixture, &token), Ok("system:serviceaccount:ns:sa".to_owned()));
    let with_secret = bound(&fixture, |claims| {
        claims.kubernetes.as_mut().unwrap().secret = Some(ObjectRef { name: "s".to_owned(), uid: "s1".to_owned() });
    });
    assert_eq!(name(&fixture, &with_secret), Err(TokenError::BoundObjectGone));
    fixture.objects.put("secrets", "ns", "s", "s1");
    assert!(name(&fixture, &with_secret).is_ok());
    fixture.objects.put("serviceaccounts", "ns", "sa", "u2");
    assert_eq!(name(&fixture, &token), Err(TokenError::AccountGone("ns/sa".to_owned())));
    fixture.objects.put("serviceaccounts", "ns", "sa", "u1");
    fixture.now.store(2000, Ordering::SeqCst);
    assert_eq!(name(&fixture, &token), Err(TokenError::Expired));
}

#[test]
fn a_token_for_another_audience_is_refused() {
    let fixture = fixture();
    let token = bound(&fixture, |claims| claims.aud = vec!["vault".to_owned()]);
    assert!(matches!(name(&fixture, &token), Err(TokenError::Audience(..))));
    let found = fixture.authenticator.token(token.expose(), &["vault".to_owned(), "x".to_owned()]).unwrap();
    assert_eq!(found.audiences, ["vault"]);
    let forged = bound(&fixture, |claims| claims.sub = "system:serviceaccount:ns:other".to_owned());
    assert_eq!(name(&fixture, &forged), Err(TokenError::NotOurs));
    let foreign = bound(&fixture, |claims| claims.iss = "https://elsewhere".to_owned());
    assert_eq!(name(&fixture, &foreign), Err(TokenError::NotOurs));
}

#[test]
fn a_secret_token_is_valid_while_its_secret_has_it() {
    let fixture = fixture();
    let account = ObjectRef { name: "sa".to_owned(), uid: "u1".to_owned() };
    let token = fixture.authenticator.key().sign_secret_token("ns", &account, "s").unwrap();
    assert_eq!(name(&fixture, &token), Err(TokenError::BoundObjectGone));
    let key = ("ns".to_owned(), "s".to_owned());
    fixture.objects.secrets.lock().unwrap().insert(key.clone(), token.expose().as_bytes().to_vec());
    assert!(name(&fixture, &token).is_ok());
    fixture.objects.secrets.lock().unwrap().insert(key, b"another".to_vec());
    assert_eq!(name(&fixture, &token), Err(TokenError::BoundObjectGone));
}
