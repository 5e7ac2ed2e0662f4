package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// It gives up after 32 tries, so a waiting caller tries again.
func redsyncPeer(addr string) acquireFunc {
	client := redis.NewClient(&redis.Options{Addr: addr})
	rs := redsync.New(redsyncgoredis.NewPool(client))
	return func(ctx context.Context, name string) (held, error) {
		mutex := rs.NewMutex(name, redsync.WithExpiry(lease))
		err := mutex.LockContext(ctx)
		for busy := new(redsync.ErrTaken); err != nil && (errors.As(err, &busy) || errors.Is(err, redsync.ErrFailed)); {
			err = mutex.LockContext(ctx)
		}
		return held{
			release: func() error { _, err := mutex.UnlockContext(ctx); return err },
			extend:  func() error { _, err := mutex.ExtendContext(ctx); return err },
		}, err
	}
}

func bsmPeer(addr string) acquireFunc {
	client := redis.NewClient(&redis.Options{Addr: addr})
	locker := redislock.New(client)
	backoff := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
	return func(ctx context.Context, name string) (held, error) {
		lock, err := locker.Obtain(ctx, name, lease, backoff)
		for errors.Is(err, redislock.ErrNotObtained) {
			lock, err = locker.Obtain(ctx, name, lease, backoff)
		}
		return held{
			release: func() error { return lock.Release(ctx) },
			extend:  func() error { return lock.Refresh(ctx, lease, nil) },
		}, err
	}
}

// A wait of rueidislock can miss the message that would end it. If an answer took longer than
// TryNextAfter, it waited forever, although the lock was free. So a wait ends after this time and
// starts again.
const patience = time.Second

func rueidisPeer(addr string) acquireFunc {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}},
		KeyMajority:    1,    // as advised for one server
		NoLoopTracking: true, // as advised from Redis 7.0.5 on
		KeyValidity:    lease,
	})
	check(err)
	return func(ctx context.Context, name string) (held, error) {
		for {
			own, giveUp := context.WithCancel(ctx)
			late := time.AfterFunc(patience, giveUp)
			_, cancel, err := locker.WithContext(own, name)
			if late.Stop() {
				return held{release: func() error { cancel(); giveUp(); return nil }}, err
			}
			if err == nil {
				cancel()
			}
		}
	}
}
