// Access to PostgreSQL: conversion of values, classification of failures, bounded waits, atomic transactions.
import { connect, type Socket } from 'node:net'
import { pipeline } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { afterEach, describe, expect, test } from 'vitest'
import { type Database, openDatabase, type Queryable } from '../../src/database/database.ts'
import { databaseFailure, isDuplicate } from '../../src/database/database-failure.ts'
import { listen } from '../../src/database/listen.ts'
import { DATABASE_SERVERS, useDatabase } from '../support/database/database.ts'
import { untilHolds } from '../support/eventually.ts'
import { freePort } from '../support/network/free-port.ts'
import { startRawServer } from '../support/test-server.ts'

const opened: Database[] = []

function open(url: string, options: Partial<Parameters<typeof openDatabase>[0]> = {}): Database {
  const database = openDatabase({ address: { url }, applicationName: 'test', ...options })
  opened.push(database)
  return database
}

afterEach(async () => {
  for (const one of opened.splice(0)) await one.close()
})

/** Listens on `town_square`; `news` resolves at the next notification, or at the one since the last call. */
function startListening(url: string, more: Partial<Parameters<typeof listen>[0]> = {}) {
  const end = new AbortController()
  let next = Promise.withResolvers<void>()
  let count = 0
  const ended = listen({
    address: { url },
    channel: 'town_square',
    onNews: () => {
      count++
      next.resolve()
    },
    signal: end.signal,
    ...more,
  })
  return {
    async news() {
      await next.promise
      next = Promise.withResolvers<void>()
    },
    count: () => count,
    end() {
      end.abort()
      return ended
    },
  }
}

const failureOf = async (work: Promise<unknown>) =>
  databaseFailure(await work.then(String, (e) => e))
const UNAVAILABLE = { kind: 'unavailable' }
const pidOf = async (on: Queryable) =>
  (await on.query<{ pid: number }>('select pg_backend_pid() as pid'))[0]?.pid
/** The two ways of asking. */
const WAYS: [string, (database: Database, sql: string) => Promise<unknown>][] = [
  ['a statement', (database, sql) => database.query(sql)],
  ['a transaction', (database, sql) => database.transaction((tx) => tx.query(sql))],
]

describe.each(DATABASE_SERVERS)('on $name', (server) => {
  const use = useDatabase(server, { migrated: false })

  test('values are converted to the expected types', async () => {
    const [row] = await use().database.query(
      `select 7::int8 as count, 1.5::numeric as mean, date '2026-02-25' as day,
         timestamptz(3) '2026-02-25 10:00:00.123Z' as at, null as nothing, $1::jsonb as json,
         current_setting('TimeZone') as zone,
         current_setting('idle_in_transaction_session_timeout') as idle`,
      [{ a: [1] }],
    )
    expect(row).toEqual({
      count: 7,
      mean: 1.5,
      day: '2026-02-25',
      at: new Date('2026-02-25T10:00:00.123Z'),
      nothing: null,
      json: { a: [1] },
      zone: 'UTC',
      // The locks of a paused process are released by then.
      idle: '15s',
    })
  })

  test.each([
    ['a second row with a key', `insert into t values (1, 1)`, 'unique', '23505', 't_pkey'],
    ['a row without its parent', `insert into t values (2, 9)`, 'other', '23503', 't_p_fkey'],
    ['a statement that is wrong', `select from nowhere`, 'other', '42P01', undefined],
  ])('%s has its own error', async (_, sql, kind, code, constraint) => {
    const { database } = use()
    await database.query(`drop table if exists t, p; create table p (id int primary key);
      insert into p values (1);
      create table t (id int primary key, p int references p (id));
      insert into t values (1, 1)`)
    expect(await failureOf(database.query(sql))).toEqual({ kind, code, constraint })
    // Text that PostgreSQL cannot store.
    const text = failureOf(database.query('select $1::text', ['a\0b']))
    expect(await text).toMatchObject({ code: '22021' })
    expect(await database.query('select 1 as one')).toEqual([{ one: 1 }])
  })

  test('a statement ends at its time-out, and the connection stays usable', async () => {
    const limits = { statementTimeoutMs: 50, connectionsMax: 1, connectTimeoutMs: 100 }
    const database = open(use().url, limits)
    const failure = await failureOf(database.query('select pg_sleep(30)'))
    expect(failure).toMatchObject({ kind: 'timeout' })
    expect(database.connections()).toEqual({ open: 1, idle: 1, waiting: 0 })
    // Waiting for a connection of the pool times out as well.
    const release = Promise.withResolvers<void>()
    const busy = database.transaction(async () => release.promise)
    expect(await failureOf(database.query('select 1'))).toMatchObject(UNAVAILABLE)
    release.resolve()
    await busy
    expect(await database.query('select 1 as one')).toEqual([{ one: 1 }])
  })

  test('a connection that is cut is unavailable, also in a transaction, and the next is a new one', async () => {
    const database = open(use().url, { connectionsMax: 1 })
    const terminate = (pid: number | undefined) =>
      use().database.query('select pg_terminate_backend($1)', [pid])
    const own = await pidOf(database)
    const cut = failureOf(database.query('select pg_sleep(30)'))
    await terminate(own)
    expect(await cut).toMatchObject(UNAVAILABLE)
    const within = database.transaction(async (tx) => {
      await terminate(await pidOf(tx))
      await tx.query('select 1')
    })
    expect(await failureOf(within)).toMatchObject(UNAVAILABLE)
    expect(await pidOf(database)).not.toBe(own)
  })

  test('a transaction is atomic', async () => {
    const { database } = use()
    await database.query('drop table if exists whole; create table whole (id int primary key)')
    const failing = database.transaction(async (tx) => {
      await tx.query('insert into whole values (1)')
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(await database.query('select * from whole')).toEqual([])
    await database.transaction((tx) => tx.query('insert into whole values (1)'))
    const inserting = database.query('insert into whole values (1)')
    const again = await inserting.catch((error: unknown) => error)
    expect([isDuplicate(again, 'whole_pkey'), isDuplicate(again, 'another')]).toEqual([true, false])
  })

  test('conflicting transactions are retried until all are done', async () => {
    const { database } = use()
    await database.query(`drop table if exists tally; create table tally (n int);
      insert into tally values (0)`)
    let tries = 0
    const add = async (tx: Queryable) => {
      tries++
      const [row] = await tx.query<{ n: number }>('select n from tally')
      await tx.query('update tally set n = $1', [(row?.n ?? 0) + 1])
    }
    const how = { isolation: 'serializable', attempts: 50 } as const
    await Promise.all(Array.from({ length: 8 }, () => database.transaction(add, how)))
    expect(await database.query('select n from tally')).toEqual([{ n: 8 }])
    expect(tries).toBeGreaterThan(8)
  })

  test('notifications are received, also after the connection was cut', async () => {
    const { database, url } = use()
    const listener = startListening(url)
    await listener.news()
    await database.query('notify town_square')
    await listener.news()
    await database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where application_name = 'vedette listener' and datname = current_database()`,
    )
    await listener.news()
    await listener.end()
    // Once for each connection, once for the announcement.
    expect(listener.count()).toBe(3)
  })
})

const shared = useDatabase(undefined, { migrated: false })

/** A proxy to the database whose connections can stop answering without a close, as in a fail-over. */
async function startPassage() {
  const { hostname, port, pathname } = new URL(shared().url)
  const passages: [Socket, Socket][] = []
  const proxy = await startRawServer((socket) => {
    const onward = connect(Number(port), hostname)
    passages.push([socket, onward])
    pipeline(socket, onward, socket, () => undefined)
  })
  return {
    url: `postgresql://vedette@${proxy.authority}${pathname}`,
    passages,
    stopAnswering() {
      for (const [socket, onward] of passages) {
        socket.unpipe(onward).pause()
        onward.unpipe(socket).pause()
      }
    },
    async [Symbol.asyncDispose]() {
      for (const one of passages.flat()) one.destroy()
      await proxy[Symbol.asyncDispose]()
    },
  }
}

test('connections lost without a close are reopened; the listener detects it for all', async () => {
  await using passage = await startPassage()
  const database = open(passage.url)
  const listener = startListening(passage.url, { heartbeatMs: 100, answerMs: 500, database })
  await listener.news()
  await Promise.all([database.query('select 1'), database.query('select 2')])
  expect(passage.passages).toHaveLength(3)
  passage.stopAnswering()
  const lost = failureOf(database.query('select 3'))
  await listener.news()
  // Long before its own limit.
  expect(await lost).toMatchObject(UNAVAILABLE)
  // Cut connections leave the pool in this turn of the event loop.
  await setImmediate()
  await database.query('select 4')
  expect(passage.passages).toHaveLength(5)
  await listener.end()
})

test.each(WAYS)('%s on an unresponsive network fails as unavailable', async (_, ask) => {
  await using passage = await startPassage()
  const database = open(passage.url, { statementTimeoutMs: 50, idleMs: 50 })
  await database.query('select 1')
  passage.stopAnswering()
  expect(await failureOf(ask(database, 'select 2'))).toMatchObject(UNAVAILABLE)
})

test('a connection that stops answering before it listens is reopened', async () => {
  const { hostname, port, pathname } = new URL(shared().url)
  let lost = 0
  await using proxy = await startRawServer((socket) => {
    const onward = connect(Number(port), hostname)
    onward.pipe(socket).on('close', () => onward.destroy())
    socket.on('data', (chunk) => {
      const isLost = lost === 0 && chunk.includes('listen town_square')
      if (isLost) lost++
      else onward.write(chunk)
    })
  })
  const url = `postgresql://vedette@${proxy.authority}${pathname}`
  const listener = startListening(url, { answerMs: 500 })
  await listener.news()
  expect(lost).toBe(1)
  await listener.end()
})

test.each(WAYS)('a full disk that %s meets is reported for a while', async (_, meet) => {
  const database = open(shared().url)
  expect(database.fullDiskReason()).toBeUndefined()
  const full = `do $$ begin raise exception 'no space' using errcode = '53100'; end $$`
  expect(await failureOf(meet(database, full))).toEqual({ kind: 'unavailable', code: '53100' })
  expect(database.fullDiskReason()).toContain('full')
})

test('a closed port, a server that never answers and a closed database are unavailable', async () => {
  const refused = open(`postgresql://a@127.0.0.1:${await freePort()}/a`)
  const code = 'ECONNREFUSED'
  expect(await failureOf(refused.query('select 1'))).toEqual({ ...UNAVAILABLE, code })
  await refused.close()
  expect(await failureOf(refused.query('select 1'))).toMatchObject(UNAVAILABLE)
  await using server = await startRawServer(() => undefined)
  const mute = open(`postgresql://a@${server.authority}/a`, { connectTimeoutMs: 100 })
  expect(await failureOf(mute.query('select 1'))).toMatchObject(UNAVAILABLE)
})

test('listening ends at once although the server has not answered yet', async () => {
  await using server = await startRawServer((socket) => socket.resume())
  const connected = server.connection()
  const listener = startListening(`postgresql://a@${server.authority}/a`)
  await connected
  await listener.end()
  await untilHolds(() => expect(server.open()).toBe(0))
})

test('closing cuts the connections of an unresponsive server', async () => {
  await using server = await startRawServer((socket) => socket.resume())
  const connected = server.connection()
  const limits = { connectTimeoutMs: 60_000, closeMs: 50 }
  const database = open(`postgresql://a@${server.authority}/a`, limits)
  const waiting = failureOf(database.query('select 1'))
  await connected
  await database.close()
  expect(await waiting).toMatchObject(UNAVAILABLE)
  await untilHolds(() => expect(server.open()).toBe(0))
})

test.each(WAYS)('%s cannot reach a server that refuses TLS', async (_, ask) => {
  await using server = await startRawServer((socket) =>
    socket.once('data', () => socket.write('N')),
  )
  const database = open(`postgresql://a@${server.authority}/a?sslmode=verify-full`)
  expect(await failureOf(ask(database, 'select 1'))).toMatchObject(UNAVAILABLE)
})
