package facade

import (
	"errors"
	"fmt"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// checkResult refuses a result that is null or anything else but an object, and
// one that is not the end of the matter: since 2026-07-28 a result says by its
// resultType what it is, and a client must not take a type that it does not know
// for a complete one (MCP, basic, results).
func checkResult(raw []byte) error {
	s := jsonscan.Scanner{Text: raw}
	s.SkipSpace()
	if !s.Consume('{') {
		return errors.New("the result is no JSON object")
	}
	for more := true; more; more = s.Consume(',') {
		s.SkipSpace()
		key, escaped, ok := s.String()
		if !ok {
			return nil // empty, or for the decoder to complain about
		}
		s.SkipSpace()
		if !s.Consume(':') {
			return nil
		}
		s.SkipSpace()
		value, ok := s.Value()
		if !ok {
			return nil
		}
		if jsonscan.Unquote(key, escaped) == "resultType" && string(value) != `"complete"` && string(value) != "null" {
			return fmt.Errorf("its resultType is %.40s, which is none that ends a request", value)
		}
		s.SkipSpace()
	}
	return nil
}
