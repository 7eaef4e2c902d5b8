package catalog

// Lists is a set of the lists that a server offers.
type Lists uint8

// The lists. Resource templates go with the resources: the protocol announces
// changes of both together.
const (
	ListTools Lists = 1 << iota
	ListResources
	ListPrompts
	AllLists = ListTools | ListResources | ListPrompts
)

// The names of the lists in mcpvisor.Warning.List. They are the members of the
// results of the protocol.
const (
	NameTools     = "tools"
	NameResources = "resources"
	NameTemplates = "resourceTemplates"
	NamePrompts   = "prompts"
)

// listsOf returns the lists that a warning is about by its name of a list; all of
// them if it names none.
func listsOf(name string) Lists {
	switch name {
	case NameTools:
		return ListTools
	case NameResources, NameTemplates:
		return ListResources
	case NamePrompts:
		return ListPrompts
	}
	return AllLists
}
