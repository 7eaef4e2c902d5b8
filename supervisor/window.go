package supervisor

import "time"

// window counts the ends of sessions within a sliding window of time, as OTP's
// supervisor does for its restart intensity.
type window struct{ ends []time.Time } // oldest first

// exceeded records an end at now and reports whether there are now more of
// them within i.Window than i.Restarts allows.
func (w *window) exceeded(now time.Time, i Intensity) bool {
	if i.Restarts <= 0 || i.Window <= 0 {
		return false
	}
	kept := w.ends[:0]
	for _, t := range w.ends {
		if now.Sub(t) < i.Window {
			kept = append(kept, t)
		}
	}
	// One more than allowed decides; older ones are not needed.
	if len(kept) > i.Restarts {
		kept = kept[len(kept)-i.Restarts:]
	}
	w.ends = append(kept, now)
	return len(w.ends) > i.Restarts
}

// full reports whether one more end, at now, would be too many.
func (w *window) full(now time.Time, i Intensity) bool {
	if i.Restarts <= 0 || i.Window <= 0 {
		return false
	}
	inside := 0
	for _, t := range w.ends {
		if now.Sub(t) < i.Window {
			inside++
		}
	}
	return inside >= i.Restarts
}

func (w *window) reset() { w.ends = w.ends[:0] }
