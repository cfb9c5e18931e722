//! Which ops of a trace may run again, by their names.
//!
//! In: an op's name as PyTorch writes it, `aten.relu_.default`. Out: whether the op is a function
//! of what it reads, in the sense of [`crate::skeleton::Op::replayable`]. A trace can say otherwise
//! for each op with the key `replayable`.
//!
//! What is not in the table may not run again. Left out on purpose are:
//!
//! | ops | because |
//! |---|---|
//! | dropout, `bernoulli_`, `rand` and the like | random state |
//! | attention in one op | may drop at random |
//! | losses; backward of convolutions, embeddings, pools, norms | sums in any order differ |
//! | `_local_scalar_dense` | the host waits for it |

/// Ops without their library and overload, and with in-place forms: elementwise ones, their
/// backward, products, normalisation (running statistics have no influence on what is normalised
/// in training), pooling and reductions, copies, and what is made of nothing.
const TABLE: &str = "
    abs add addcdiv addcmul bitwise_and clamp clamp_min copy cos div elu eq exp ge gelu gt
    hardsigmoid hardswish hardtanh le leaky_relu lerp log lt mul ne neg pow reciprocal relu rsqrt
    rsub sigmoid silu sin sqrt sub tanh where
    gelu_backward hardswish_backward hardtanh_backward sigmoid_backward silu_backward
    tanh_backward threshold_backward
    addmm baddbmm bmm convolution mm
    _log_softmax _safe_softmax _softmax native_batch_norm native_group_norm native_layer_norm
    _adaptive_avg_pool2d avg_pool2d max_pool2d_with_indices mean sum
    _to_copy arange cat clone constant_pad_nd embedding fill full gather index_select ones
    ones_like scalar_tensor stack upsample_bilinear2d upsample_nearest2d zero zeros zeros_like
";

/// Whether the table has an op.
pub(super) fn by_name(name: &str) -> bool {
    let mut parts = name.split('.');
    let (first, second) = (parts.next(), parts.next());
    let base = match (first, second) {
        (Some("aten"), Some(base)) => base,
        (Some(base), _) => base,
        (None, _) => return false,
    };
    let out_of_place = base.strip_suffix('_').filter(|base| !base.is_empty());
    let base = out_of_place.unwrap_or(base);
    TABLE.split_whitespace().any(|known| known == base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_with_and_without_library_and_overload() {
        for name in [
            "aten.relu_.default",
            "aten.convolution.default",
            "aten._log_softmax.default",
            "relu",
            "add_",
            "aten.mean.dim",
        ] {
            assert!(by_name(name), "{name}");
        }
        for name in [
            "aten.native_dropout.default",
            "aten.bernoulli_.float",
            "aten.convolution_backward.default",
            "aten.rand.default",
            "fused_step",
            "relu.aten",
            "_",
            "",
        ] {
            assert!(by_name(name) == (name == "relu.aten"), "{name}");
        }
    }
}
