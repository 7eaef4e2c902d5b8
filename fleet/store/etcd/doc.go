// Package etcd is the store of a fleet in etcd.
package etcd

import (
	_ "go.etcd.io/etcd/client/v3"
)
