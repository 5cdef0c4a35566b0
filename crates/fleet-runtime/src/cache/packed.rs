//! Objects as compact bytes. (Form of this commit: JSON text.)

use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Packed(Box<[u8]>);

#[derive(Debug, Default)]
pub(crate) struct Packer;

impl Packer {
    pub(crate) fn pack(&mut self, value: &Value) -> Packed {
        Packed(value.to_string().into_bytes().into_boxed_slice())
    }

    pub(crate) fn unpack<K: DeserializeOwned>(&self, packed: &Packed) -> Result<K, serde_json::Error> {
        serde_json::from_slice(&packed.0)
    }

    pub(crate) fn release(&mut self, _packed: &Packed) {}
}
