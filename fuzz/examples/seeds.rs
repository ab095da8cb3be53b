//! Writes the seeds: `cargo run --example seeds` in `fuzz/`, into `fuzz/corpus/`.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (target, name, input) in venturi_fuzz::seeds::all()? {
        std::fs::create_dir_all(corpus.join(target))?;
        std::fs::write(corpus.join(target).join(name), input)?;
    }
    Ok(())
}
