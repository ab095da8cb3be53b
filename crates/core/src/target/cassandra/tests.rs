//! Tests of what needs no server.
