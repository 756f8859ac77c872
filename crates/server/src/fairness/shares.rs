//! Seats of priority levels: nominal ones by configured shares, current ones by borrowing and lending. Pure.
//!
//! The algorithm is kube-apiserver's (KEP-1040): demand is smoothed so that a rise counts at once and a fall slowly,
//! and seats are dealt in proportion to demand between each level's minimum and maximum, found by bisection. Every
//! level keeps at least one seat, or a level without shares could never drain. [`super::gate`] calls it every ten
//! seconds with what [`super::queues`] measured.

use super::queues::Demand;

/// The decay of the smoothed demand of a level; kube-apiserver's. At one adjustment in ten seconds its half-life is five
/// minutes.
const MEMORY: f64 = 0.977;

/// The shares in the configuration of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) shares: u32,
    pub(super) lendable_percent: u32,
    /// `None` lets it borrow without limit.
    pub(super) borrowing_percent: Option<u32>,
}

/// The bounds of a level's seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeatBounds {
    /// Seats by the configured shares.
    pub(super) nominal: u32,
    /// Seats that are never lent.
    pub(super) min: u32,
    /// Seats that the level may have with borrowed ones.
    pub(super) max: u32,
}

fn percent(of: u32, percent: u32) -> u32 {
    (f64::from(of) * f64::from(percent) / 100.0).round() as u32
}

/// The bounds of all levels for a server with so many seats.
pub(super) fn bounds(total: u32, shares: &[Share]) -> Vec<SeatBounds> {
    let sum: u64 = shares.iter().map(|share| u64::from(share.shares)).sum();
    let of = |share: &Share| {
        let nominal = (u64::from(total) * u64::from(share.shares)).div_ceil(sum.max(1));
        let nominal = u32::try_from(nominal).unwrap_or(u32::MAX);
        let borrowable = share.borrowing_percent.map_or(total, |limit| percent(nominal, limit));
        SeatBounds {
            nominal,
            min: nominal - percent(nominal, share.lendable_percent).min(nominal),
            max: nominal.saturating_add(borrowable),
        }
    };
    shares.iter().map(of).collect()
}

/// A level's demand, smoothed: it follows a rise at once and a fall slowly.
pub(super) fn smooth(before: f64, demand: Demand) -> f64 {
    let envelope = demand.average + demand.deviation;
    envelope.max(MEMORY * before + (1.0 - MEMORY) * envelope)
}

/// One level when seats are dealt out again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    pub(super) bounds: SeatBounds,
    pub(super) smooth: f64,
    pub(super) high: f64,
}

/// The current seats of all levels: each as much as it needs in proportion, within its bounds.
#[doc(alias = "computeFairAllocations")]
pub(super) fn allot(total: u32, needs: &[Need]) -> Vec<u32> {
    let least = |need: &Need| f64::from(need.bounds.min).max(f64::from(need.bounds.nominal).min(need.high));
    let seats = |need: &Need, proportion: f64| {
        let least = least(need);
        (least.max(need.smooth).max(0.001) * proportion).clamp(least, f64::from(need.bounds.max).max(least))
    };
    let sum = |proportion: f64| needs.iter().map(|need| seats(need, proportion)).sum::<f64>();
    let (mut low, mut high) = (0.0, 1e7);
    // As many halvings as a double has digits.
    for _ in 0..64 {
        let middle = (low + high) / 2.0;
        if sum(middle) < f64::from(total) { low = middle } else { high = middle }
    }
    needs.iter().map(|need| (seats(need, low).round() as u32).max(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(shares: u32, lendable_percent: u32) -> Share {
        Share { shares, lendable_percent, borrowing_percent: None }
    }

    #[test]
    fn nominal_seats_follow_the_shares() {
        let levels = [
            share(30, 33),
            share(40, 25),
            share(10, 0),
            share(40, 50),
            share(100, 90),
            share(20, 50),
            share(5, 0),
        ];
        let bounds = bounds(600, &levels);
        let nominal: Vec<u32> = bounds.iter().map(|bounds| bounds.nominal).collect();
        assert_eq!(nominal, [74, 98, 25, 98, 245, 49, 13]);
        assert_eq!(bounds.iter().map(|bounds| bounds.min).collect::<Vec<_>>(), [50, 73, 25, 49, 24, 24, 13]);
    }

    #[test]
    fn an_idle_level_lends_and_gets_back() {
        let bounds = bounds(100, &[share(50, 90), share(50, 0)]);
        let need = |bounds, smooth| Need { bounds, smooth, high: smooth };
        let lent = allot(100, &[need(bounds[0], 0.0), need(bounds[1], 90.0)]);
        assert!(lent[1] > 80 && lent[0] >= 5 && lent.iter().sum::<u32>() <= 101, "{lent:?}");
        let back = allot(100, &[need(bounds[0], 60.0), need(bounds[1], 90.0)]);
        assert!(back[0] >= 49 && back[1] >= 49, "{back:?}");
    }

    #[test]
    fn a_limit_on_borrowing_holds() {
        let shares = [share(50, 90), Share { borrowing_percent: Some(10), ..share(50, 0) }];
        let bounds = bounds(100, &shares);
        assert_eq!(bounds[1].max, 55);
        let need = |bounds, smooth| Need { bounds, smooth, high: smooth };
        assert_eq!(allot(100, &[need(bounds[0], 0.0), need(bounds[1], 90.0)])[1], 55);
    }

    #[test]
    fn demand_rises_at_once_and_falls_slowly() {
        let demand = |average| Demand { high: average, average, deviation: 0.0 };
        assert_eq!(smooth(0.0, demand(50.0)), 50.0);
        let fallen = smooth(50.0, demand(0.0));
        assert!(fallen > 48.0 && fallen < 50.0);
    }
}
