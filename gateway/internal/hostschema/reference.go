package hostschema

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// maxScanned bounds the bytes that are scanned to follow references. References beyond it are assumed to
// be valid.
const maxScanned = 16 << 20

// reference accepts only references within the schema: a host may follow others.
func (c *schemaCheck) reference(keyword string, value []byte) string {
	target, err := jsonscan.ReadString(value)
	switch {
	case err != nil:
		return "has " + kindOf(value) + " as " + keyword + "; it must be a text"
	case !strings.HasPrefix(target, "#"):
		return "refers to " + quote(target) + "; references must stay in the schema"
	case keyword != "$recursiveRef":
		c.references[target[1:]] = true
	}
	return ""
}

// missing reports a reference that leads nowhere: hosts that compile schemas reject the tool, and with
// it the whole list.
func (c *schemaCheck) missing(schema []byte) string {
	if c.hasParts {
		return ""
	}
	scanned := 0
	for _, target := range slices.Sorted(maps.Keys(c.references)) { // sorted: the result is the same each time
		if found, known := c.find(schema, target, &scanned); known && !found {
			return "refers to " + quote("#"+target) + ", which it does not have"
		}
	}
	return ""
}

// find reports whether a reference leads somewhere. known is false if maxScanned was reached first.
func (c *schemaCheck) find(schema []byte, target string, scanned *int) (found, known bool) {
	if target == "" {
		return true, true
	}
	path, ok := strings.CutPrefix(target, "/")
	if !ok {
		return c.anchors[target], true
	}
	if path, err := url.PathUnescape(path); err == nil {
		for part := range strings.SplitSeq(path, "/") {
			if *scanned += len(schema); *scanned > maxScanned {
				return false, false
			}
			if schema = child(schema, strings.NewReplacer("~1", "/", "~0", "~").Replace(part)); schema == nil {
				return false, true
			}
		}
		return true, true
	}
	return false, true
}

// child returns the member or item with that name; nil without one.
func child(value []byte, name string) (found []byte) {
	switch value[0] {
	case '{':
		_ = jsonscan.EachMember(value, func(key string, member []byte) error {
			if key == name {
				found = member
			}
			return nil
		})
	case '[':
		left, err := strconv.Atoi(name)
		if err != nil || left < 0 {
			return nil
		}
		jsonscan.EachItem(value, func(item []byte) bool {
			if left == 0 {
				found = item
			}
			left--
			return left >= 0
		})
	}
	return found
}
