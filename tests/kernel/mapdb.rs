// SPDX-License-Identifier: GPL-2.0-only
//! The mapping database against a plain tree.

use super::*;
use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};

struct Nodes(Vec<Node>);
impl Store for Nodes {
    fn node(&self, index: NodeIndex) -> &Node {
        &self.0[index.raw() as usize]
    }
}

fn subtree(model: &BTreeMap<NodeIndex, NodeIndex>, top: NodeIndex) -> BTreeSet<NodeIndex> {
    let mut found = BTreeSet::from([top]);
    loop {
        let more: Vec<_> =
            model.iter().filter(|(n, p)| found.contains(p) && !found.contains(n)).map(|(n, _)| *n).collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

#[test]
fn random_maps_grants_and_revocations_agree_with_a_parent_map() {
    const COUNT: u64 = 60;
    let nodes = Nodes((0..=COUNT).map(|_| Node::default()).collect());
    let mut model: BTreeMap<NodeIndex, NodeIndex> = BTreeMap::new();
    let random = Random::new(11);
    for _ in 0..60_000 {
        let a = NodeIndex::new(1 + random.below(COUNT) as u32);
        let b = NodeIndex::new(1 + random.below(COUNT) as u32);
        match random.below(4) {
            // Map: a comes from b, or is a root.
            0 | 1 if !model.contains_key(&a) => {
                let parent = if model.contains_key(&b) { b } else { NodeIndex::NONE };
                nodes.plant(a, parent);
                model.insert(a, parent);
            }
            // Grant: b takes a's place.
            2 if model.contains_key(&a) && !model.contains_key(&b) => {
                nodes.plant(b, NodeIndex::NONE);
                nodes.replace(a, b, || ());
                let parent = model.remove(&a).unwrap();
                model.insert(b, parent);
                model.values_mut().filter(|p| **p == a).for_each(|p| *p = b);
            }
            // Revoke: all below a, leaves first.
            3 if model.contains_key(&a) => {
                let expected = subtree(&model, a);
                let mut walked = BTreeSet::new();
                let mut at = a;
                while at.is_some() {
                    assert!(walked.insert(at));
                    at = nodes.next_in_subtree(at, a, || ());
                }
                assert_eq!(walked, expected);
                while nodes.first_child(a).is_some() {
                    let child = nodes.first_child(a);
                    let heirs: Vec<_> = model.iter().filter(|(_, p)| **p == child).map(|(n, _)| *n).collect();
                    assert_eq!(heirs.len() as u32, nodes.children(child));
                    nodes.hoist(child, || ());
                    assert!(heirs.iter().all(|heir| nodes.parent(*heir) == a));
                    nodes.detach(child);
                    model.values_mut().filter(|p| **p == child).for_each(|p| *p = a);
                    model.remove(&child);
                }
                assert_eq!(subtree(&model, a).len(), 1);
            }
            _ => {}
        }
    }
}
