//! Probes of the physical limits that results are held against.

pub mod tcp;
