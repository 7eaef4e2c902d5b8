//go:build linux

package integration

var stdioProcessRows map[string]stdioRow
