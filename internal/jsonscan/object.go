package jsonscan

import (
	"errors"
	"strconv"
)

// ErrNotObject is the error of EachMember for text that is not a JSON object.
var ErrNotObject = errors.New("not a JSON object")

var (
	errNotString = errors.New("is not a string")
	errNotNumber = errors.New("is not a number")
)

// EachMember calls f for each member of a JSON object, in order. It stops at the first
// error of f and returns it. key may share the memory of text: a caller that keeps it
// keeps text, which must not change then.
func EachMember(text []byte, f func(key string, value []byte) error) error {
	s := Scanner{Text: text}
	s.SkipSpace()
	if !s.Consume('{') {
		return ErrNotObject
	}
	s.SkipSpace()
	if s.Consume('}') {
		return nil
	}
	for {
		quoted, escaped, ok := s.MemberName()
		if !ok {
			return ErrNotObject
		}
		value, ok := s.Value()
		if !ok {
			return ErrNotObject
		}
		if err := f(UnquoteShared(quoted, escaped), value); err != nil {
			return err
		}
		s.SkipSpace()
		if s.Consume(',') {
			s.SkipSpace()
			continue
		}
		if s.Consume('}') {
			return nil
		}
		return ErrNotObject
	}
}

// Member returns the value of the last member of a JSON object that has this name; nil if none has it. Of text that is not
// valid, the members before the mistake count.
func Member(object []byte, name string) (value []byte) {
	_ = EachMember(object, func(key string, v []byte) error {
		if key == name {
			value = v
		}
		return nil
	})
	return value
}

// EachItem calls f for each element of a JSON array, until f returns false. It stops
// where the text is not valid.
func EachItem(array []byte, f func(item []byte) bool) {
	s := Scanner{Text: array}
	s.SkipSpace()
	s.Consume('[')
	for s.SkipSpace(); !s.Consume(']'); s.SkipSpace() {
		item, ok := s.Value()
		if !ok || !f(item) {
			return
		}
		s.SkipSpace()
		s.Consume(',')
	}
}

// ReadString reads a value that must be a string; null is "". The result may share the
// memory of value.
func ReadString(value []byte) (string, error) {
	if string(value) == "null" {
		return "", nil
	}
	s := Scanner{Text: value}
	quoted, escaped, ok := s.String()
	if !ok || !s.AtEnd() {
		return "", errNotString
	}
	return UnquoteShared(quoted, escaped), nil
}

// ReadNumber reads a value that must be a number; null is 0.
func ReadNumber(value []byte) (float64, error) {
	if string(value) == "null" {
		return 0, nil
	}
	if !Valid(value) {
		return 0, errNotNumber
	}
	return strconv.ParseFloat(string(value), 64)
}
