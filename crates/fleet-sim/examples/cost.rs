//! Where the time of a trial goes.
use fleet_runtime::Metrics;
use fleet_sim::world::World;
use std::time::Instant;
fn main() {
    for _ in 0..3 {
        let rt = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        rt.block_on(async {
            let t = Instant::now();
            let w = World::new(1, Metrics::default()).await.unwrap();
            eprintln!("world {:?}", t.elapsed());
            w.end().await;
        });
        let t = Instant::now();
        let r = fleet_sim::trial::stormy_trace(3).unwrap();
        eprintln!("story {:?} lines {}", t.elapsed(), r.lines().count());
    }
}
