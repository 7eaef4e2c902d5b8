package supervisor

// Strategy says which members of a group are restarted when one of them fails. The names are those of OTP.
type Strategy string

const (
	// OneForOne: only the member that failed. It is the zero value, too.
	OneForOne Strategy = "one_for_one"
	// RestForOne: the member that failed, and those behind it.
	RestForOne Strategy = "rest_for_one"
	// OneForAll: all members.
	OneForAll Strategy = "one_for_all"
)

// WhenSpent says what follows when a group has failed: there were more failures than its intensity allows, or
// the attempts of a member are spent.
type WhenSpent string

const (
	// SpentPark ends all members, and starts them afresh after a pause.
	SpentPark WhenSpent = "park"
	// SpentEvict gives all members up until one is restarted, or the groups are set again.
	SpentEvict WhenSpent = "evict"
	// SpentParent ends all members and leaves the rest to the group that this one is a member of, for which a
	// member has failed. For a group that is in no other it is SpentEvict. It is the zero value, too.
	SpentParent WhenSpent = "parent"
)
