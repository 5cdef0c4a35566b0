//! Deserializes packed bytes into any serde type, without an intermediate tree. Strings are borrowed.

use serde::de::value::{BorrowedStrDeserializer, Error};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::pool::Pool;
use super::{LARGE, instant_text, tag, uid_text};

/// Reads one object.
pub(super) struct Decoder<'a> {
    bytes: &'a [u8],
    pool: &'a Pool,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(bytes: &'a [u8], pool: &'a Pool) -> Self {
        Self { bytes, pool }
    }

    /// The pool indexes of all shared strings, once for each use.
    pub(super) fn pooled(&mut self, out: &mut Vec<u32>) {
        while let Ok((kind, number)) = self.header() {
            let payload = match kind {
                tag::FLOAT => 8,
                tag::UID => 16,
                tag::INLINE => number,
                _ => 0,
            };
            if kind == tag::POOLED {
                out.extend(u32::try_from(number));
            }
            if self.take(payload).is_err() {
                return;
            }
        }
    }

    fn header(&mut self) -> Result<(u8, u64), Error> {
        let byte = self.take(1)?.first().copied().unwrap_or_default();
        let number = if byte >> 4 == LARGE { self.varint()? + u64::from(LARGE) } else { u64::from(byte >> 4) };
        Ok((byte & 0xf, number))
    }

    fn varint(&mut self) -> Result<u64, Error> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?.first().copied().unwrap_or_default();
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(damaged())
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Error> {
        let length = usize::try_from(length).map_err(|_| damaged())?;
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or_else(damaged)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn text(&mut self, kind: u8, number: u64) -> Result<&'a str, Error> {
        match kind {
            tag::INLINE => str::from_utf8(self.take(number)?).map_err(Error::custom),
            _ => u32::try_from(number).ok().and_then(|id| self.pool.text(id)).ok_or_else(damaged),
        }
    }

    fn value<V: Visitor<'a>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        let (kind, number) = self.header()?;
        match kind {
            tag::SIMPLE if number == 0 => visitor.visit_unit(),
            tag::SIMPLE => visitor.visit_bool(number == 2),
            tag::POSITIVE => visitor.visit_u64(number),
            tag::NEGATIVE => visitor.visit_i64(-1 - i64::try_from(number).map_err(|_| damaged())?),
            tag::FLOAT => {
                let bytes = self.take(8)?.try_into().map_err(|_| damaged())?;
                visitor.visit_f64(f64::from_le_bytes(bytes))
            }
            tag::INLINE | tag::POOLED => visitor.visit_borrowed_str(self.text(kind, number)?),
            tag::DECIMAL => visitor.visit_string(number.to_string()),
            tag::INSTANT => visitor.visit_string(instant_text(number).ok_or_else(damaged)?),
            tag::UID => visitor.visit_string(uid_text(self.take(16)?)),
            tag::LIST => visitor.visit_seq(Elements { decoder: self, left: number }),
            tag::OBJECT => visitor.visit_map(Elements { decoder: self, left: number }),
            _ => Err(damaged()),
        }
    }

    fn is_null(&self) -> bool {
        self.bytes.first() == Some(&tag::SIMPLE)
    }
}

/// Cannot happen: only `super` writes packed bytes.
fn damaged() -> Error {
    Error::custom("a packed object is damaged")
}

impl<'de> Deserializer<'de> for &mut Decoder<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.value(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_null() {
            self.header()?;
            visitor.visit_none()
        } else {
            visitor.visit_some(self)
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let (kind, number) = self.header()?;
        match kind {
            tag::INLINE | tag::POOLED => {
                let text: BorrowedStrDeserializer<'de, Error> = BorrowedStrDeserializer::new(self.text(kind, number)?);
                visitor.visit_enum(text)
            }
            tag::DECIMAL => visitor.visit_enum(number.to_string().into_deserializer()),
            tag::OBJECT if number == 1 => visitor.visit_enum(Variant { decoder: self }),
            _ => Err(Error::custom("not the name of a variant")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// The remaining elements of a list or an object.
struct Elements<'d, 'a> {
    decoder: &'d mut Decoder<'a>,
    left: u64,
}

impl<'a> SeqAccess<'a> for Elements<'_, 'a> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        seed.deserialize(&mut *self.decoder).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        usize::try_from(self.left).ok()
    }
}

impl<'a> MapAccess<'a> for Elements<'_, 'a> {
    type Error = Error;

    fn next_key_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.next_element_seed(seed)
    }

    fn next_value_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(&mut *self.decoder)
    }

    fn size_hint(&self) -> Option<usize> {
        usize::try_from(self.left).ok()
    }
}

/// `{"Name": content}`.
struct Variant<'d, 'a> {
    decoder: &'d mut Decoder<'a>,
}

impl<'d, 'a> EnumAccess<'a> for Variant<'d, 'a> {
    type Error = Error;
    type Variant = Content<'d, 'a>;

    fn variant_seed<T: DeserializeSeed<'a>>(self, seed: T) -> Result<(T::Value, Content<'d, 'a>), Error> {
        let name = seed.deserialize(&mut *self.decoder)?;
        Ok((name, Content { decoder: self.decoder }))
    }
}

struct Content<'d, 'a> {
    decoder: &'d mut Decoder<'a>,
}

impl<'a> serde::de::VariantAccess<'a> for Content<'_, 'a> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        serde::Deserialize::deserialize(self.decoder)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'a>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.decoder)
    }

    fn tuple_variant<V: Visitor<'a>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.decoder.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'a>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.decoder.deserialize_any(visitor)
    }
}
