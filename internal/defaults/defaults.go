// Package defaults has the values that zero fields of a specification stand for. Programs get
// them from mcpvisor.ServerSpec.WithDefaults.
package defaults

import "time"

// The defaults of mcpvisor.Timeouts.
const (
	StartTimeout     = 60 * time.Second
	NegotiateTimeout = 3 * time.Second
	ListTimeout      = 30 * time.Second
	CallTimeout      = 60 * time.Second
	CallTotalTimeout = 10 * time.Minute
	ShutdownTimeout  = 2 * time.Second
	DrainTimeout     = 30 * time.Second
)

// These bound the starts of servers by package runners such as npx, which need a processor each.
const (
	RunnerStarts = 3                // at one time, or one for each processor if that is more
	RunnerHold   = 30 * time.Second // that a start counts at most
)

// The defaults of mcpvisor.Limits.
const (
	MaxMessageBytes = 64 << 20
	MaxBufferBytes  = 64 << 20
	MaxElements     = 1_000_000
	MaxDecodedBytes = 256 << 20
	MaxItems        = 10_000
	MaxPages        = 1_000
	MaxCatalogBytes = 256 << 20
	MaxInFlight     = 1_024
	MaxQueued       = 1_024
	MaxStderrLines  = 30
)

// The defaults of mcpvisor.Probe.
const (
	ProbeInterval = 30 * time.Second
	ProbeTimeout  = 10 * time.Second
	ProbeFailures = 3
)

// The defaults of supervisor.Policy.
const (
	MaxDelay    = 5 * time.Minute
	StableAfter = 10 * time.Second
)

// TokenWait is the default of oauth.Config.TokenWait.
const TokenWait = 5 * time.Second
