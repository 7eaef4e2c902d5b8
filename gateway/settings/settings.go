// Package settings is not part of the stable API. It has what a gateway can change while it serves. Package gateway uses it under the same
// names, and package config reads it from files.
package settings

import (
	"time"

	"github.com/mcpvisor/mcpvisor"
)

// Settings can change while a gateway serves; see gateway.SettingsVar. The zero value changes nothing.
type Settings struct {
	// Names say how tools and prompts are listed. If it is nil, gateway.WithNames applies.
	Names *Names
	// OnDown says what happens to the entries of a server that is down, and OnDownOf does so for
	// single servers. nil: [Keep].
	OnDown   *OnDown
	OnDownOf map[string]OnDown
	// Share says whether clients share one incarnation of a server, and ShareOf does so for single
	// servers. Default: [ShareAll].
	Share   Share
	ShareOf map[string]Share
	// MaxCopies bounds the copies of servers ([ShareClient]) for all clients of all gateways with
	// these settings, and MaxCopiesOfPrincipal those for one principal. All clients without a token
	// are one principal. A request that needs one more is refused. 0 or less: [DefaultMaxCopies] and
	// [DefaultMaxCopiesOfPrincipal].
	MaxCopies, MaxCopiesOfPrincipal int
	// MaxHeldByPrincipal bounds what one principal makes the gateways with these settings hold, in bytes: its active
	// sessions over HTTP, subscriptions with their URIs, bodies of requests, answers over 64 KiB and notifications that
	// it has not read, shortened results, and held calls. Without tokens all peers are one principal. A session, and a
	// principal, may hold at most as much as is still free, so that others find room. What would exceed it is
	// refused; a lower bound takes nothing away. 0 or less: [DefaultMaxHeldByPrincipal].
	MaxHeldByPrincipal int64
	// MaxHeldByAll bounds what all principals make them hold, in bytes. 0 or less: a quarter of the
	// memory limit of the process (GOMEMLIMIT, or that of its cgroup), or 1 GiB without one.
	MaxHeldByAll int64
	// MaxResultBytes bounds the text in the result of a tool, in bytes as it is encoded in JSON. A
	// longer text is cut, and a link to a resource with the whole text follows it. That resource is kept
	// for 10 minutes, and only the same principal with the same profile can read it. At most 64 MiB are
	// kept for one principal and 256 MiB for all; the oldest are dropped first. A text that is too long to
	// be kept is not shortened. Structured content, images and embedded resources are never shortened. 0
	// or less: nothing is shortened.
	MaxResultBytes int
	// ResourceOrder names the servers that come first, in this order, if several servers have a resource or a
	// template for it. Without one of them a URI that does not name its server is refused.
	ResourceOrder []string
	// Origins and Hosts are the web sites whose pages may use a gateway.Handler, and the names that the Host header may
	// have, besides those of gateway.WithOrigins and gateway.WithHosts, which say more.
	Origins, Hosts []string
	// Profiles are the parts of the servers that clients are offered, by the name of the profile.
	Profiles map[string]Profile
}

// The defaults of [Settings].
const (
	DefaultMaxCopies            = 64
	DefaultMaxCopiesOfPrincipal = 32
	DefaultMaxHeldByPrincipal   = 256 << 20
)

// Prefix says when the name of a tool or prompt begins with that of its server.
type Prefix string

const (
	// PrefixAlways lists "server__tool", and so does an empty Prefix. A name depends only on its server and its tool.
	PrefixAlways Prefix = "always"
	// PrefixOnConflict lists "tool", and "server__tool" if several servers have had such a tool, or
	// if its name has "__". A name changes when another server with the same name comes, and does
	// not change back while the gateway runs. While it runs, a name of a server that has gone is
	// given to no other one.
	PrefixOnConflict Prefix = "conflict"
	// PrefixNever lists "tool". A tool that several servers have is withheld: rename one of them,
	// or hide it (mcpvisor.ServerSpec.Tools). gateway.Status has the conflicts.
	PrefixNever Prefix = "never"
)

// Names say how tools and prompts are listed.
type Names struct {
	// Prefix says whether a name begins with that of its server. Default: PrefixAlways.
	Prefix Prefix
	// HostPrefix is the prefix that the host puts before each name, as in "mcp__mcpvisor__". Names are
	// shortened by its length, so that prefix and name together fit the 64 characters that model
	// providers accept. At most 40 bytes count. Default: none.
	HostPrefix string
}

// DefaultHostPrefix is what a host puts before the names of tools if its entry is called "mcpvisor".
const DefaultHostPrefix = "mcp__mcpvisor__"

// OnDown says how long the entries of a server stay in the lists while it is down and its policy starts
// it again: for that time, [Keep] or [Withdraw]. The entries of a server that was given up, parked or
// unregistered, or that needs an authorization, always leave the lists.
type OnDown time.Duration

const (
	// Keep keeps the entries as long as the server may return by itself: the lists stay the same
	// over a restart, byte for byte, if the server offers the same again. Every negative OnDown does.
	Keep OnDown = -1
	// Withdraw takes the entries from the lists as soon as the server is down.
	Withdraw OnDown = 0
)

// Share says whether the clients of a gateway share one incarnation of a server.
type Share string

const (
	// ShareAll: one incarnation serves all clients. So does an empty Share.
	ShareAll Share = "shared"
	// ShareClient: each client has an incarnation of its own, a copy. It is for servers that keep
	// something for their client, such as an open page or a login. The lists are those of the
	// server that is registered, the same for all clients; that incarnation gets no calls.
	//
	// A copy starts with the first request of its client that needs it. The request waits for the
	// copy as for a server that is down (gateway.WithMaxWait). A copy ends with the session or connection
	// of its client, and when the server is replaced, given up, removed or hidden by a profile. In a
	// gateway.Handler it also ends when its client has had no request and no stream for
	// HTTPLimits.SessionIdle. A client of 2026-07-28 over HTTP has no session: all clients with one
	// token are one, and without tokens their requests are refused.
	ShareClient Share = "client"
)

// Profile is a part of the servers, for some clients. What it leaves out is not listed, and a request
// for it gets the same error as one for something that does not exist. The zero value leaves out nothing.
//
// A client of a gateway.Handler gets a profile by its token (gateway.Token, gateway.ProfileKey) or by the path,
// and one of a gateway.Transport by gateway.WithProfile. Without tokens a path is a convenience and no
// protection: anybody who knows one path can guess the others.
//
// In a pattern, * matches any text, slashes included, and ? matches one character.
type Profile struct {
	// Servers are the servers that are offered, by name.
	Servers mcpvisor.ToolFilter
	// Tools and Prompts are the tools and prompts of these servers that are offered. A pattern
	// without a slash is compared with the name at the server, as in "read_*". A pattern with a
	// slash begins with the server, as in "files/*" and "*/read_*".
	Tools, Prompts mcpvisor.ToolFilter
	// Resources are the resources of these servers that are offered, by URI, as in "file:///srv/*".
	// They bound what can be read, listed or not. A resource template is listed if its own text
	// matches. A URI that two readers may read differently matches nothing: docs/gateway.md says which.
	Resources mcpvisor.ToolFilter
	// Annotations are the values that the annotations of a tool must have for it to be offered. Nothing
	// checks what a server writes there.
	Annotations Annotations
}

// Annotations are the values that the annotations of a tool must have. nil: any value. For an annotation
// that a tool does not have, the default of the specification counts: not read only, destructive, not
// idempotent, and with an open world. A tool that is read only is not destructive.
type Annotations struct{ ReadOnly, Destructive, Idempotent, OpenWorld *bool }
