//! Solvers' inner loops do not touch the heap: the number of allocations of a solve does not depend
//! on its steps.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use manifusion::manifold::{Manifold, parse};
use manifusion::prior::{Prior, default_prior};
use manifusion::rng::Streams;
use manifusion::sde::{EulerMaruyama, Heun, NoDrift, PriorDrift, Stepper, integrate_fixed};

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

#[expect(unsafe_code, reason = "a counting allocator has to implement GlobalAlloc")]
// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> usize {
    let before = COUNT.with(Cell::get);
    work();
    COUNT.with(Cell::get) - before
}

fn solve(stepper: &mut dyn Stepper, start: &[f64], steps: usize) -> usize {
    let mut x = start.repeat(4);
    allocations(|| {
        let streams = Streams::new(1, "allocations");
        integrate_fixed(stepper, &streams, 0, &[0.0; 4], &[0.1; 4], steps, &mut x)
            .expect("the steps are small");
    })
}

#[test]
fn steps_do_not_allocate() {
    for spec in [
        "sphere:2",
        "torus:3",
        "so:3",
        "o:4",
        "stiefel:4,2",
        "level:x^2+y^2/4+z^2-1",
        "sphere:2*so:3",
    ] {
        let manifold = parse(spec).expect("a valid spec");
        let start =
            manifusion::check::sample_points(manifold.as_ref(), 1, &Streams::new(1, "start"))
                .expect("a point");
        compare(spec, &start, &mut || Box::new(Heun::new(manifold.as_ref(), NoDrift, 1.0)));
        compare(spec, &start, &mut || {
            Box::new(EulerMaruyama::new(manifold.as_ref(), NoDrift, 1.0))
        });
    }
    let manifold = parse("hyperbolic:2").expect("a valid spec");
    let prior: std::sync::Arc<dyn Prior> = default_prior(&manifold).expect("it has a prior");
    let start = [1.0, 0.0, 0.0];
    compare("hyperbolic:2", &start, &mut || {
        Box::new(Heun::new(manifold.as_ref() as &dyn Manifold, PriorDrift(prior.as_ref()), 1.0))
    });
}

/// 10 and 110 steps (both within one block of noise) must allocate equally often.
fn compare<'a>(spec: &str, start: &[f64], make: &mut dyn FnMut() -> Box<dyn Stepper + 'a>) {
    let (few, many) = (solve(make().as_mut(), start, 10), solve(make().as_mut(), start, 110));
    assert_eq!(few, many, "{spec}: {few} allocations for 10 steps, {many} for 110");
}
