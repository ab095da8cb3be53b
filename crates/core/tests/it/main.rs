//! Whole trials and whole servers, in one binary: it takes long to link.

mod corpus;
mod hostile;
mod stages;
