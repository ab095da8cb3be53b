use super::*;
use venturi_base::data::archive::{Chunk, Reader};
use venturi_base::data::metrics::Metrics;
use venturi_base::data::points::{Block, Rows};
use venturi_engine::Control;
use venturi_testkit::{assert_contains, assert_error, Directory};

/// Archives in a directory that is not there yet.
fn make(place: &Directory, more: &str, control: &Control) -> Result<String> {
    let path = place.file("made");
    let order = format!(
        r#"{{"path": {path:?}, "data": {{"source": "metrics", "hosts": 10, "seed": 4}},
            "archives": 3, "steps": 50, "threads": 2{more}}}"#
    );
    generate(&order, control)
}

fn chunks(directory: &Path, manifest: &Manifest, points: u64) -> Result<Vec<Chunk>> {
    let archives = manifest.archives.iter();
    let archives = archives.map(|one| (directory.join(&one.file), one.clone()));
    let mut reader = Reader::start(0, archives.collect(), manifest.message(), points)?;
    venturi_testkit::run(async {
        let mut all = Vec::new();
        while let Some(chunk) = std::future::poll_fn(|cx| reader.poll_next(cx)).await {
            let chunk = chunk?;
            reader.give_back(Vec::with_capacity(7));
            all.push(chunk);
        }
        Ok(all)
    })
}

#[test]
fn archives_hold_the_points_of_the_workload() {
    let place = Directory::new();
    let answer = make(&place, "", &Control::new()).unwrap();
    let made = place.0.join("made");
    let manifest = Manifest::read(&made).unwrap();
    assert_eq!(serde_json::from_str::<Manifest>(&answer).unwrap(), manifest);
    assert_eq!((manifest.points, manifest.series), (5_000, 100));
    assert_eq!(manifest.archives.len(), 3);
    assert_eq!(manifest.archives[0].file, "host_range_0_2.gz");
    assert_eq!(manifest.archives[2].hosts, (6, 9));
    let spans = manifest.last_unix_ns - manifest.first_unix_ns;
    assert_eq!(spans, 49_000_000_000);
    assert!(manifest.compressed_bytes < manifest.bytes / 2);

    let metrics = Metrics {
        hosts: 10,
        seed: 4,
        tick_ns: 1_000_000_000,
        start_unix_ns: 1_483_228_800_000_000_000,
        steps: Some(50),
    };
    let mut block = Block::default();
    metrics.walk(0..10).fill(1000, &mut block).unwrap();
    let digest = block.digest(&metrics.layout(0..10));
    assert_eq!(manifest.checksum, format!("{digest:016x}"));

    for points in [1, 70, 100, 1_000_000] {
        let all = chunks(&made, &manifest, points).unwrap();
        assert_eq!(all.iter().map(|chunk| chunk.points).sum::<u64>(), 5_000);
        let text: usize = all.iter().map(|chunk| chunk.bytes.len()).sum();
        assert_eq!(text as u64, manifest.bytes);
        let digests = all.iter().map(|chunk| chunk.digest);
        assert_eq!(digests.fold(0, u64::wrapping_add), digest);
        for chunk in &all {
            assert!(chunk.points <= points.max(10));
            assert!(chunk.bytes.is_empty() || chunk.bytes.starts_with(b"+cpu.user|"));
        }
    }
    let again = make(&place, "", &Control::new()).unwrap_err();
    assert_error!(again, Kind::Usage, "files in it already");
}

#[test]
fn what_is_wrong_with_an_archive_is_said() {
    let place = Directory::new();
    let more = r#", "format": "values", "digits": null, "level": 1"#;
    make(&place, more, &Control::new()).unwrap();
    let made = place.0.join("made");
    let mut manifest = Manifest::read(&made).unwrap();
    assert_eq!(manifest.message(), (3, 1));
    let file = made.join(&manifest.archives[1].file);
    let whole = fs::read(&file).unwrap();
    let refused = |manifest: &Manifest| chunks(&made, manifest, 100).unwrap_err().message;
    let read = || Manifest::read(&made).unwrap_err().message;

    fs::write(&file, &whole[..whole.len() - 100]).unwrap();
    assert_contains(&read(), "in the manifest");
    assert_contains(&refused(&manifest), "not whole");

    let mut broken = whole.clone();
    broken[whole.len() / 2] ^= 0x55;
    fs::write(&file, &broken).unwrap();
    assert_contains(&refused(&manifest), "host_range_3_5.gz");

    fs::write(&file, &whole).unwrap();
    manifest.archives[1].crc32 = "00000000".into();
    assert_contains(&refused(&manifest), "crc32");
    manifest.archives[1].file = "../x.gz".into();
    let text = serde_json::to_string(&manifest).unwrap();
    fs::write(made.join(MANIFEST), text).unwrap();
    assert_contains(&read(), "no file's name");
    fs::remove_file(made.join(MANIFEST)).unwrap();
    assert_contains(&read(), "venturi generate");
}

#[test]
fn a_cancel_or_a_mistake_leaves_nothing() {
    let place = Directory::new();
    let control = Control::new();
    control.cancel();
    let cancelled = make(&place, "", &control).unwrap_err();
    assert_eq!(cancelled.kind, Kind::Cancelled);
    for (more, says) in [
        (r#", "format": "dictionary""#, "dictionary"),
        (r#", "digits": 3"#, "digits"),
        (r#", "level": 10"#, "level"),
        (r#", "x": 1"#, "unknown field"),
    ] {
        let error = make(&place, more, &Control::new()).unwrap_err();
        assert_contains(&error.message, says);
    }
    assert!(!place.0.join("made").exists());
}
