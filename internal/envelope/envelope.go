// Package envelope reads the members of JSON-RPC messages, and does not build values of them.
package envelope

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mcpvisor/mcpvisor/internal/jsonscan"
)

// MaxDepth is how deep a message may be nested.
const MaxDepth = 1000

// Message has the members of a message, as JSON; nil: it has none. They share the memory of the message.
type Message struct {
	ID, Params, Result, Error []byte
	// Method is empty in an answer. It has memory of its own.
	Method string
}

// Read reads a message, which must be valid JSON. The id of an answer is not checked: what cannot be an id is
// that of no question.
func Read(text []byte) (m Message, err error) {
	var version, method []byte
	err = jsonscan.EachMember(text, func(key string, value []byte) error {
		var member *[]byte
		switch key {
		case "jsonrpc":
			member = &version
		case "id":
			member = &m.ID
		case "method":
			member = &method
		case "params":
			member = &m.Params
		case "result":
			member = &m.Result
		case "error":
			member = &m.Error
		default:
			return nil
		}
		if *member != nil {
			return fmt.Errorf("%s is there twice", key)
		}
		*member = value
		return nil
	})
	switch {
	case errors.Is(err, jsonscan.ErrNotObject):
		return m, errors.New("it must be an object")
	case err != nil:
		return m, err
	case string(version) != `"2.0"`:
		return m, errors.New("jsonrpc must be \"2.0\"")
	case method == nil && m.ID == nil:
		return m, errors.New("it has neither a method nor an id")
	case method == nil:
		return m, nil
	case method[0] != '"' || string(method) == `""`:
		return m, errors.New("the method must be a text")
	}
	name, _ := jsonscan.ReadString(method)
	m.Method = strings.Clone(name)
	if m.ID != nil {
		_, err = ReadID(m.ID)
	}
	return m, err
}

// RequestID returns the id under which a request that [Read] refuses can be answered; nil if it has no method, or no id
// that can be read. The text must be valid JSON.
func RequestID(text []byte) (id []byte) {
	ids, methods := 0, 0
	_ = jsonscan.EachMember(text, func(key string, value []byte) error {
		switch key {
		case "id":
			id = value
			ids++
		case "method":
			methods++
		}
		return nil
	})
	if ids != 1 || methods == 0 || Key(id) == "" {
		return nil
	}
	return id
}

// maxID is the largest number that an id may be: larger ones are not exact everywhere.
const maxID = 1<<53 - 1

// ReadID reads an id: a string, which has memory of its own, or an int64.
func ReadID(value []byte) (any, error) {
	if value[0] == '"' {
		text, _ := jsonscan.ReadString(value)
		return strings.Clone(text), nil
	}
	number, err := jsonscan.ReadNumber(value)
	if err != nil || value[0] == 'n' || number != float64(int64(number)) || number > maxID || number < -maxID {
		return nil, errors.New("the id must be a text or a whole number")
	}
	return int64(number), nil
}

// Key returns the same text for ids that are equal, in whatever way they are written; empty for what is no id.
func Key(value []byte) string {
	if len(value) == 0 {
		return ""
	}
	switch id, _ := ReadID(value); id := id.(type) {
	case string:
		return `"` + id
	case int64:
		return strconv.FormatInt(id, 10)
	}
	return ""
}
