//go:build !linux

package process

// retags does nothing: there are no tags here.
var retags retagger

type retagger struct{}

func (retagger) add(*Child) {}

func (retagger) remove(*Child) {}
