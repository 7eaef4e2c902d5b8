package testutil

import (
	"encoding/json"
	"math/rand/v2"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// Shuffled writes JSON with the members of its objects in another order, and with spaces between them.
func Shuffled(text string) string {
	switch text[0] {
	case '{':
		var members []string
		_ = jsonscan.EachMember([]byte(text), func(name string, value []byte) error {
			quoted, _ := json.Marshal(name)
			members = append(members, string(quoted)+" : "+Shuffled(string(value)))
			return nil
		})
		rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		return "{" + strings.Join(members, " ,\t") + "}"
	case '[':
		var items []string
		jsonscan.EachItem([]byte(text), func(item []byte) bool { items = append(items, Shuffled(string(item))); return true })
		return "[" + strings.Join(items, ",") + "]"
	}
	return text
}
