//! `cargo run --example corpus unpack` in `fuzz/` writes what was kept into `corpus/`, to go on
//! from; `cargo run --example corpus pack` keeps what is there now.

use std::collections::BTreeSet;
use std::path::Path;

use venturi_fuzz::kept::{pack, unpack};
use venturi_fuzz::TARGETS;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let packs = match std::env::args().nth(1).as_deref() {
        Some("pack") => true,
        Some("unpack") => false,
        _ => return Err("say pack or unpack".into()),
    };
    for (name, _) in TARGETS {
        let folder = here.join("corpus").join(name);
        let file = here.join("kept").join(format!("{name}.zst"));
        // A target that has kept nothing yet has no file, one that has not run no folder.
        if !(if packs { &folder } else { &file }).exists() {
            continue;
        }
        if !packs {
            std::fs::create_dir_all(&folder)?;
            for (number, input) in unpack(&std::fs::read(&file)?)?.iter().enumerate() {
                std::fs::write(folder.join(format!("kept-{number}")), input)?;
            }
            continue;
        }
        // In one order, and none twice: the same corpus is the same file.
        let mut inputs = BTreeSet::new();
        for entry in std::fs::read_dir(&folder)? {
            inputs.insert(std::fs::read(entry?.path())?);
        }
        let inputs: Vec<Vec<u8>> = inputs.into_iter().collect();
        std::fs::create_dir_all(here.join("kept"))?;
        std::fs::write(&file, pack(&inputs)?)?;
        println!("{name}: {} inputs", inputs.len());
    }
    Ok(())
}
