//! Normal deviates by the ziggurat of Marsaglia and Tsang, 256 layers.

use std::sync::LazyLock;

/// Where the lowest layer's tail begins, and the area of every layer.
const TAIL: f64 = 3.654_152_885_361_009;
const AREA: f64 = 0.004_928_673_233_991_41;

pub struct Ziggurat {
    /// The layers' right edges, the lowest one's as if it were a rectangle.
    edges: [f64; 257],
    /// The density at them.
    heights: [f64; 257],
}

static TABLES: LazyLock<Ziggurat> = LazyLock::new(|| {
    let density = |x: f64| (-0.5 * x * x).exp();
    let mut edges = [0.0; 257];
    edges[0] = AREA / density(TAIL);
    edges[1] = TAIL;
    for at in 2..256 {
        let above: f64 = AREA / edges[at - 1] + density(edges[at - 1]);
        edges[at] = (-2.0 * above.ln()).sqrt();
    }
    let heights = edges.map(density);
    Ziggurat { edges, heights }
});

/// Vigna's splitmix64: one word of state, so that a host costs eight bytes.
#[inline]
pub fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Even in (0, 1].
pub fn even(state: &mut u64) -> f64 {
    ((splitmix(state) >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64)
}

impl Ziggurat {
    pub fn get() -> &'static Self {
        &TABLES
    }

    /// A deviate of mean 0 and standard deviation 1.
    #[inline]
    pub fn draw(&self, state: &mut u64) -> f64 {
        let bits = splitmix(state);
        let layer = (bits & 0xff) as usize;
        // Even in [-1, 1), of bits that do not choose the layer.
        let even = f64::from_bits(bits >> 12 | 0x4000_0000_0000_0000) - 3.0;
        let x = even * self.edges[layer];
        if x.abs() < self.edges[layer + 1] {
            return x;
        }
        self.edge(layer, x, even < 0.0, state)
    }

    /// One draw in eighty.
    #[cold]
    fn edge(&self, layer: usize, x: f64, negative: bool, state: &mut u64) -> f64 {
        if layer == 0 {
            loop {
                let beyond = -even(state).ln() / TAIL;
                if -2.0 * even(state).ln() > beyond * beyond {
                    let x = TAIL + beyond;
                    return if negative { -x } else { x };
                }
            }
        }
        let (low, high) = (self.heights[layer], self.heights[layer + 1]);
        match low + (high - low) * even(state) < (-0.5 * x * x).exp() {
            true => x,
            false => self.draw(state),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviates_are_normal() {
        const DRAWS: usize = 2_000_000;
        let table = Ziggurat::get();
        let mut state = 7;
        let (mut sums, mut beyond) = ([0.0; 4], [0u32; 4]);
        for _ in 0..DRAWS {
            let x = table.draw(&mut state);
            let mut power = 1.0;
            for sum in &mut sums {
                power *= x;
                *sum += power;
            }
            for (at, count) in beyond.iter_mut().enumerate() {
                *count += u32::from(x.abs() > at as f64 + 1.0);
            }
        }
        let moments = sums.map(|sum| sum / DRAWS as f64);
        // Five standard errors.
        for ((found, theory), error) in moments.iter().zip([0.0, 1.0, 0.0, 3.0]).zip([
            1.0,
            std::f64::consts::SQRT_2,
            15f64.sqrt(),
            96f64.sqrt(),
        ]) {
            let allowed = 5.0 * error / (DRAWS as f64).sqrt();
            assert!((found - theory).abs() < allowed, "{moments:?}");
        }
        for (count, share) in beyond
            .iter()
            .zip([0.317_310_5, 0.045_500_3, 0.002_699_8, 6.334e-5])
        {
            let expected = share * DRAWS as f64;
            let off = (f64::from(*count) - expected).abs();
            assert!(off < 5.0 * expected.sqrt(), "{beyond:?}");
        }
    }
}
