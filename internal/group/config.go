package group

import "time"

// Strategy says which members a failure of one restarts. The names are those of OTP.
type Strategy string

const (
	// OneForOne: only the member that failed. It is the zero value, too.
	OneForOne Strategy = "one_for_one"
	// RestForOne: the member that failed, and those behind it.
	RestForOne Strategy = "rest_for_one"
	// OneForAll: all members.
	OneForAll Strategy = "one_for_all"
)

// Restart is the restart type of a member.
type Restart string

const (
	// Permanent: the member must run. It is the zero value, too.
	Permanent Restart = "permanent"
	// Transient: a server that exits with 0 after its work rests; its lifecycle decides that. A group cannot be
	// transient.
	Transient Restart = "transient"
	// Temporary: the member is never started again while the group runs, and its end is no failure.
	Temporary Restart = "temporary"
)

// WhenSpent says what follows when the group has failed: its intensity is exceeded, or the budget of a member
// is spent.
type WhenSpent string

const (
	// Park ends all members, and starts them afresh after Config.ParkEvery.
	Park WhenSpent = "park"
	// Evict gives all members up until the group is renewed.
	Evict WhenSpent = "evict"
	// Parent ends all members and leaves the rest to the parent, for which a member has failed. At the root it
	// is Evict. It is the zero value, too.
	Parent WhenSpent = "parent"
)

// Intensity bounds the failures of a group: more than Max within Period are too many. No bound if Period is 0.
type Intensity struct {
	Max    int
	Period time.Duration
}

// Member is one member of a group.
type Member struct {
	Name    string
	Group   bool // a nested group, and not a server
	Restart Restart
	// After are servers and groups, of this group or others, that must be ready when the member starts.
	After []string
}

// Config describes one group. It does not change; members come and go by inputs.
type Config struct {
	Name string
	// Strategy: with RestForOne and OneForAll each member also comes after all those before it.
	Strategy Strategy
	Members  []Member
	// Intensity of failures. What follows is WhenSpent.
	Intensity Intensity
	WhenSpent WhenSpent
	// ParkEvery is the pause of Park.
	ParkEvery time.Duration
	// StartBound is how long a member waits for one before it that starts; 0 means until that one is ready.
	StartBound time.Duration
	// Parallel members start at once, but for After. Only for OneForOne.
	Parallel bool
	// Root: the group has no parent.
	Root bool
}
