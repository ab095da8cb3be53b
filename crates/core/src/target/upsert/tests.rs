//! Tests of what all databases share, against a database made of a map.
