// A source follows its file through all kinds of changes; a bad file takes nothing away that runs.
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  createFileSource,
  type FileSource,
  type FileSourceOptions,
} from '../../../src/agent/monitors-file/source.ts'
import type { Change, Snapshot } from '../../../src/agent/source.ts'
import { MONITOR_TYPES } from '../../../src/monitors/registry.ts'
import { createFilesFolder } from '../../support/agent/monitors-files.ts'

const files = createFilesFolder()

let folder: string
let path: string
let stop: AbortController
let source: FileSource
let changes: AsyncIterator<Change>
let count = 0

beforeEach(() => {
  folder = join(files.folder, `source-${count++}`)
  mkdirSync(folder)
  path = join(folder, 'monitors.yaml')
  stop = new AbortController()
})
afterEach(async () => {
  stop.abort()
  await changes.return?.()
})

/** A poll so rare that only the watch can have noticed a change. */
const NEVER_MS = 3_600_000

function follow(options: Partial<FileSourceOptions> = {}) {
  const settings = { path, env: {}, types: MONITOR_TYPES, location: 'local', pollMs: NEVER_MS }
  source = createFileSource({ ...settings, ...options })
  changes = source.follow(stop.signal)[Symbol.asyncIterator]()
}

const text = (...names: string[]) =>
  `monitors:\n${names.map((name) => `  - {name: ${name}, type: URL, request: {url: "http://a.test/"}}`).join('\n')}\n`

async function next(): Promise<Change> {
  const { value, done } = await changes.next()
  if (done === true) throw new Error('the source has ended')
  return value
}

async function nextSnapshot(): Promise<Snapshot> {
  const change = await next()
  if (change.kind !== 'monitors') throw new Error(JSON.stringify(change))
  return change.snapshot
}

/** The next snapshot, after a change that it is there for. */
async function snapshotAfter(change: () => void): Promise<Snapshot> {
  const later = nextSnapshot()
  change()
  return later
}

const namesOf = (snapshot: Snapshot) => snapshot.monitors.map((one) => one.name)
/** Writes a file with these monitors. */
const writeMonitors = (...names: string[]) => writeFileSync(path, text(...names))
/** The monitors of the next snapshot, after a change. */
const namesAfter = async (change: () => void) => namesOf(await snapshotAfter(change))

/** Follows a file with monitor A, whose first snapshot has come. */
async function followA() {
  writeMonitors('A')
  follow()
  return nextSnapshot()
}

describe('a change is noticed', () => {
  test('when the file is written again', async () => {
    expect(namesOf(await followA())).toEqual(['A'])
    expect(await namesAfter(() => writeMonitors('A', 'B'))).toEqual(['A', 'B'])
  })

  test('when another file is renamed over it, as editors do', async () => {
    await followA()
    writeFileSync(`${path}~`, text('B'))
    expect(await namesAfter(() => renameSync(`${path}~`, path))).toEqual(['B'])
  })

  test('when a folder link is swapped, as ConfigMaps do', async () => {
    for (const [version, name] of Object.entries({ v1: 'A', v2: 'B' })) {
      mkdirSync(join(folder, version))
      writeFileSync(join(folder, version, 'monitors.yaml'), text(name))
    }
    symlinkSync('v1', join(folder, '..data'))
    symlinkSync('..data/monitors.yaml', path)
    follow()
    expect(namesOf(await nextSnapshot())).toEqual(['A'])
    symlinkSync('v2', join(folder, '..data_tmp'))
    const swap = () => renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
    expect(await namesAfter(swap)).toEqual(['B'])
  })

  test('when it happened before anybody asked for the next', async () => {
    await followA()
    writeMonitors('B')
    expect(namesOf(await nextSnapshot())).toEqual(['B'])
  })

  test('by polling, where the system reports nothing about a file elsewhere', async () => {
    const secret = join(files.folder, `secret-${count}`)
    writeFileSync(secret, 'one')
    writeFileSync(path, `secrets: [S]\n${text('A')}`)
    follow({ pollMs: 20, env: { S_FILE: secret } })
    expect((await nextSnapshot()).variables[0]?.value).toBe('one')
    const later = await snapshotAfter(() => writeFileSync(secret, 'another'))
    expect(later.variables[0]?.value).toBe('another')
  })

  test('on reload, even when nothing has changed', async () => {
    await followA()
    source.reload()
    expect(namesOf(await nextSnapshot())).toEqual(['A'])
  })
})

describe('a bad file', () => {
  test('is refused with its problems, and a valid one after it is accepted', async () => {
    await followA()
    const later = next()
    writeFileSync(path, 'monitors:\n  - {name: A, typ: URL}\n')
    expect(await later).toEqual({
      kind: 'refused',
      reason: `${path}:2:15  monitors[0].typ: unknown key; did you mean type?`,
    })
    expect(await namesAfter(() => writeMonitors('A', 'B'))).toEqual(['A', 'B'])
  })

  test('is refused when it vanishes, and accepted when it returns unchanged', async () => {
    await followA()
    let later = next()
    rmSync(path)
    expect(await later).toMatchObject({ kind: 'refused' })
    later = next()
    writeMonitors('A')
    expect(await later).toMatchObject({ kind: 'monitors' })
  })

  test('is refused when it is bad from the beginning', async () => {
    follow()
    expect(await next()).toMatchObject({ kind: 'refused' })
  })

  test('in a folder that does not exist is found once it does', async () => {
    path = join(folder, 'later', 'monitors.yaml')
    follow({ path, pollMs: 20 })
    expect(await next()).toMatchObject({ kind: 'refused' })
    mkdirSync(join(folder, 'later-new'))
    writeFileSync(join(folder, 'later-new', 'monitors.yaml'), text('A'))
    const appear = () => renameSync(join(folder, 'later-new'), join(folder, 'later'))
    expect(await namesAfter(appear)).toEqual(['A'])
  })
})

test('an unchanged monitor stays the same object, and a changed one does not', async () => {
  writeMonitors('A', 'B')
  follow()
  const before = await nextSnapshot()
  const changed = text('A', 'B').replace('{name: B,', '{name: B, every: 5m,')
  const after = await snapshotAfter(() => writeFileSync(path, changed))
  expect(after.monitors[0]).toBe(before.monitors[0])
  expect(after.monitors[1]).not.toBe(before.monitors[1])
  expect(after.monitors[1]).toMatchObject({ id: 'b', frequency: 5 })
})

test('other files in the folder are no change', async () => {
  await followA()
  const change = () => {
    writeFileSync(join(folder, 'other'), 'x')
    writeMonitors('B')
  }
  expect(await namesAfter(change)).toEqual(['B'])
})

test('a file that has been read already is not read again', async () => {
  writeMonitors('A')
  follow({ location: 'lab' })
  const first = await source.read()
  if (!first.ok) throw new Error('the file is good')
  const snapshot = await nextSnapshot()
  expect(snapshot.monitors).toBe(first.file.monitors)
  expect(snapshot.location).toBe('lab')
})

test('a change between the first read and the start of the watch is noticed', async () => {
  writeMonitors('A')
  follow()
  await source.read()
  writeMonitors('B')
  expect(namesOf(await nextSnapshot())).toEqual(['A'])
  expect(namesOf(await nextSnapshot())).toEqual(['B'])
})

test('stop ends it, also while it waits', async () => {
  await followA()
  const waiting = changes.next()
  stop.abort()
  expect(await waiting).toMatchObject({ done: true })
})
