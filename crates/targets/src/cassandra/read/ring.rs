//! The ring of tokens, cut for the streams: to each an equal part, in pieces that one node has each.

/// What one statement after another reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The first and the last token; `None`: the statement is of no part of the ring.
    pub tokens: Option<(i64, i64)>,
    /// Who has it, as the cluster lists its nodes; `None`: whoever.
    pub node: Option<usize>,
}

/// By stream. `ring`: tokens in their order, each with the node that has what lies up to it and behind
/// the one before; empty: nodes are all the same.
pub fn pieces(streams: usize, ring: &[(i64, usize)]) -> Vec<Vec<Piece>> {
    let edge = |at: usize| i128::from(i64::MIN) + (1i128 << 64) * at as i128 / streams as i128;
    let part = |stream: usize| {
        let (mut low, high) = (edge(stream), edge(stream + 1) - 1);
        let mut found = Vec::new();
        let first = ring.partition_point(|(token, _)| i128::from(*token) < low);
        for (token, node) in &ring[first..] {
            let token = i128::from(*token);
            if token >= high {
                break;
            }
            found.push(piece(low, token, Some(*node)));
            low = token + 1;
        }
        // Behind the last token it goes on to the first.
        let next = ring.iter().find(|(token, _)| i128::from(*token) >= low);
        let node = next.or(ring.first()).map(|(_, node)| *node);
        found.push(piece(low, high, node));
        found
    };
    (0..streams).map(part).collect()
}

fn piece(from: i128, to: i128, node: Option<usize>) -> Piece {
    Piece {
        tokens: Some((from as i64, to as i64)),
        node,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_node_has_a_piece_a_stream() {
        let two = pieces(2, &[]);
        assert_eq!(two[0], [piece(i64::MIN.into(), -1, None)]);
        assert_eq!(two[1], [piece(0, i64::MAX.into(), None)]);
    }

    #[test]
    fn each_piece_is_of_one_node() {
        let ring = [(-100, 1), (0, 2), (50, 1)];
        let whole = &pieces(1, &ring)[0];
        let nodes: Vec<_> = whole.iter().filter_map(|piece| piece.node).collect();
        assert_eq!(nodes, [1, 2, 1, 1]);
        assert_eq!(whole[1].tokens, Some((-99, 0)));
        assert_eq!(whole[3].tokens, Some((51, i64::MAX)));
    }

    proptest! {
        #[test]
        fn together_they_are_the_ring(streams in 1usize..40, mut tokens in prop::collection::vec(any::<i64>(), 0..50)) {
            tokens.sort_unstable();
            tokens.dedup();
            let ring: Vec<_> = tokens.iter().map(|token| (*token, (*token & 3) as usize)).collect();
            let all: Vec<_> = pieces(streams, &ring).concat();
            let ends: Vec<_> = all.iter().filter_map(|piece| piece.tokens).collect();
            prop_assert_eq!((ends[0].0, ends[ends.len() - 1].1), (i64::MIN, i64::MAX));
            prop_assert!(ends.iter().all(|(from, to)| from <= to));
            prop_assert!(ends.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
            for (token, node) in &ring {
                let has = |piece: &&Piece| piece.tokens.is_some_and(|(from, to)| (from..=to).contains(token));
                prop_assert_eq!(all.iter().find(has).and_then(|piece| piece.node), Some(*node));
            }
        }
    }
}
