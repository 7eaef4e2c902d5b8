package web

import (
	"net/http"
	"time"

	"github.com/mcpvisor/mcpvisor/internal/usage"
	"github.com/mcpvisor/mcpvisor/web/api"
)

func (h *Handler) getUsage(w http.ResponseWriter, r *http.Request) {
	after, ok := number(w, r, "after")
	if !ok {
		return
	}
	answerValue(h, w, r, func() api.Usage {
		kept, seq := h.usage.Read(time.Now(), 0, func() []usage.Server { return usage.Of(h.client.Status()) })
		answer := api.Usage{Instance: h.instance, Seq: seq, Servers: make([]api.ServerUsage, 0, len(kept))}
		for _, name := range h.client.Servers() {
			if samples := kept[name]; len(samples) > 0 {
				answer.Servers = append(answer.Servers, usageOf(name, samples, after))
			}
		}
		return answer
	})
}

// usageOf describes the samples of a server, which are not empty.
func usageOf(name string, samples []usage.Sample, after uint64) api.ServerUsage {
	last := samples[len(samples)-1]
	now := sampleOf(last)
	u := api.ServerUsage{Server: name, CPU: now.CPU, MemoryBytes: now.MemoryBytes, Processes: last.Processes}
	var calls, failed, recent int64
	var over time.Duration
	for _, s := range samples {
		calls, failed = calls+s.Calls, failed+s.Failed
		if last.At.Sub(s.At) < time.Minute {
			recent, over = recent+s.Calls, over+s.Over
		}
		if s.Seq > after {
			u.Samples = append(u.Samples, sampleOf(s))
		}
	}
	if over > 0 {
		rate := float64(recent) / over.Minutes()
		u.CallsPerMinute = &rate
	}
	if calls > 0 {
		share := min(float64(failed)/float64(calls), 1) // a call may fail in a later sample than it began in
		u.ErrorShare = &share
	}
	return u
}

func sampleOf(s usage.Sample) api.UsageSample {
	one := api.UsageSample{Seq: s.Seq, At: s.At.Round(0), OverNs: s.Over, Calls: s.Calls, Failed: s.Failed}
	if s.Known {
		one.MemoryBytes = &s.Memory
		if s.Over > 0 {
			one.CPU = &s.CPU
		}
	}
	return one
}
