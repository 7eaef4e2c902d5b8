package catalog

// Lists is a set of the lists that a server offers.
type Lists uint8

// The lists. Resource templates go with the resources, as in the protocol.
const (
	ListTools Lists = 1 << iota
	ListResources
	ListPrompts
	AllLists = ListTools | ListResources | ListPrompts
)
