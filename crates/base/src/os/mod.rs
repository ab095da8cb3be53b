//! What the operating system is asked for.

pub mod machine;
pub mod pin;
pub mod pipe;
pub mod shared;
