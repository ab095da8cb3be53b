//! What fuzzers start from and what they have kept, given to the targets again
//! (`fuzz/README.md`): nothing of it may make a target panic, and the targets have to compile.

#[path = "../../../../fuzz/src/lib.rs"]
mod targets;

use std::io::ErrorKind;
use std::panic::catch_unwind;
use std::path::Path;

use targets::{kept, seeds, TARGETS};

/// What the fuzzers of a target have kept, if one has run for long.
fn kept_of(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/kept");
    match std::fs::read(folder.join(format!("{target}.zst"))) {
        Ok(packed) => kept::unpack(&packed).unwrap(),
        Err(error) if error.kind() == ErrorKind::NotFound => vec![],
        Err(error) => panic!("{target}: {error}"),
    }
}

#[test]
fn seeds_and_kept_inputs_find_nothing() {
    let seeds = seeds::all().unwrap();
    for (name, run) in TARGETS {
        let of_target = seeds.iter().filter(|(target, _, _)| *target == name);
        let mut inputs: Vec<Vec<u8>> = of_target.map(|(_, _, input)| input.clone()).collect();
        assert!(!inputs.is_empty(), "{name} has no seeds");
        let packed = kept::pack(&inputs).unwrap();
        assert_eq!(kept::unpack(&packed).unwrap(), inputs);
        inputs.extend(kept_of(name));
        for (number, input) in inputs.iter().enumerate() {
            let done = catch_unwind(|| run(input));
            assert!(done.is_ok(), "{name}: input {number}: {input:?}");
        }
    }
}
