//! A steady training step allocates nothing. One test per program: the counter is global.
#![expect(unsafe_code, reason = "a counting allocator has to implement an unsafe trait")]

use manifusion::nn::{
    Directions, FieldInput, FieldOutput, FourierConfig, Mlp, NetConfig, ShardCotangents,
    ShardValues, VariationalField,
};
use manifusion::optim::{Adam, AdamConfig, Ema, clip_norm};
use manifusion::rows::Rows;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_steady_training_step_allocates_nothing() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    pool.install(|| {
        let config = NetConfig {
            depth: 3,
            width: 192, // Strassen–Winograd
            actnorm: true,
            residual: true,
            fourier: Some(FourierConfig { features: 20, f_max: 10.0 }),
            ..NetConfig::default()
        };
        let (n, k, m) = (300, 2, 3);
        let x: Vec<f64> = (0..n * m).map(|i| (i as f64).sin()).collect();
        let e: Vec<f64> = (0..n * k * m).map(|i| (i as f64).cos()).collect();
        let s = vec![0.3; n];
        let input = FieldInput {
            x: Rows::new(&x, m).unwrap(),
            s: &s,
            directions: Directions { per_row: k, e: &e, e_s: &[] },
        };
        let mut net = Mlp::<f32>::new(config, 1).unwrap();
        net.init_actnorm(input).unwrap();
        let mut adam = Adam::new(AdamConfig::default(), net.params().len()).unwrap();
        let mut ema = Ema::new(0.99, net.params()).unwrap();
        let mut workspace = net.train_workspace(2);
        let (mut losses, mut a, mut jvp) = (vec![0.0; n], vec![0.0; n * m], vec![0.0; n * k * m]);
        let loss = |v: ShardValues<'_>, c: ShardCotangents<'_>| {
            for i in 0..v.a.len() {
                c.loss[i / m] += 0.5 * v.a[i] * v.a[i];
                c.a[i] = v.a[i];
            }
            let first = v.first_row * k * m;
            c.jvp.copy_from_slice(&e[first..first + v.jvp.len()]);
            for i in 0..v.jvp.len() {
                c.loss[i / (k * m)] += v.jvp[i] * e[first + i];
            }
        };
        let mut step = || {
            net.loss_gradient(input, &loss, &mut workspace, &mut losses, None).unwrap();
            let (gradient, support) = workspace.gradient_mut();
            clip_norm(gradient, support, 10.0).unwrap();
            net.update_params(|p| adam.step(p, workspace.gradient(), 1e-3)).unwrap();
            ema.update(net.params(), 0).unwrap();
            net.eval(input, FieldOutput { a: &mut a, jvp: &mut jvp }).unwrap();
        };
        // The first steps fill the buffers and the pool of every thread.
        (0..20).for_each(|_| step());
        // Evaluation takes buffers from a pool; a thread that a busy machine starts late adds its
        // own, once. So the best of three windows counts.
        let mut window = || {
            let before = CALLS.load(Ordering::Relaxed);
            (0..100).for_each(|_| step());
            CALLS.load(Ordering::Relaxed) - before
        };
        let calls = [window(), window(), window()];
        assert!(calls.contains(&0), "{calls:?} allocations in 100 steps");
        // The counter counts: a boxed number is seen.
        let before = CALLS.load(Ordering::Relaxed);
        std::hint::black_box(Box::new(1));
        assert_eq!(CALLS.load(Ordering::Relaxed) - before, 1);
    });
}
