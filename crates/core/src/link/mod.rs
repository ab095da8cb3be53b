//! A link between two network namespaces: its length and its losses, which no queue of the kernel's has
//! everywhere; and what the whole path really is. Linux only.

mod filler;
mod frames;
mod length;
mod namespace;
mod relay;
mod witness;

pub use filler::{Fill, Filler};
pub use relay::{Between, Relay};
pub use witness::{look, Spec as Look};
