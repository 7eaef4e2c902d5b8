package mcpvisor

import "reflect"

// Equal reports whether both specs start a server alike and treat it alike, so that a
// server that runs by one need not be started again for the other. facade.Client.Sync
// decides by it.
//
// Origin is not compared. Zero fields of Timeouts, Limits and Probe equal their defaults,
// and an empty list or map equals none. The values behind Stdio, HTTP, InMemory, Transport,
// Auth and Enterprise are compared, not their addresses. HTTP.Client is equal only if it is
// the same pointer, Auth.Store only if the stores are equal by ==.
//
// Go cannot compare what two functions do. Functions are equal only if both are nil, or if
// one is a copy of the other: make Serve, New and the Fetch functions once, and use them
// in each spec. A method value and a function literal with variables of its surroundings
// are another function each time that the expression is evaluated. Package config gives
// equal functions and stores for equal entries.
func (s ServerSpec) Equal(other ServerSpec) bool {
	a, b := s.WithDefaults(), other.WithDefaults()
	a.Origin, b.Origin = "", ""
	return equalValues(reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem())
}

// equalValues compares two addressable values of one type, as Equal says.
func equalValues(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if !equalValues(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !equalValues(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		return equalMaps(a, b)
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() || a.Type().Elem().PkgPath() != reflect.TypeFor[ServerSpec]().PkgPath() {
			return a.Pointer() == b.Pointer()
		}
		return equalValues(a.Elem(), b.Elem())
	case reflect.Func:
		return closure(a) == closure(b)
	default: // the others are comparable, but for what an interface holds
		return a.Comparable() && b.Comparable() && a.Equal(b)
	}
}

// equalMaps compares maps whose values are comparable.
func equalMaps(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	for entries := a.MapRange(); entries.Next(); {
		v := b.MapIndex(entries.Key())
		if !v.IsValid() || !v.Equal(entries.Value()) {
			return false
		}
	}
	return true
}

// closure is the address of the code of a function together with the variables that it
// uses; 0 for nil. reflect.Value.Pointer is that of the code alone, which closures of one
// function literal share. f must be addressable.
func closure(f reflect.Value) uintptr {
	return uintptr(reflect.NewAt(reflect.TypeFor[uintptr](), f.Addr().UnsafePointer()).Elem().Uint())
}
