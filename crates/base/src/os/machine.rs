//! Which machine this is.

/// Tells machines apart, so that a process number is not mistaken for one of another.
pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned())
}

/// Containers of one machine may each have a monotonic clock of their own
/// (time_namespaces(7)); empty where there is no such thing.
pub fn time_namespace() -> String {
    let link = std::fs::read_link("/proc/self/ns/time");
    link.map_or_else(
        |_| String::new(),
        |link| link.to_string_lossy().into_owned(),
    )
}
