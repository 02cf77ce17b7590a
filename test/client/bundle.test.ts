// A folder packed twice is the same bundle; a hostile bundle writes nothing outside of its folder, and is refused.
import * as fs from 'node:fs'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGzip, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { pack, type Pack } from 'tar-stream'
import { packBundle } from '../../src/client/bundle-pack.ts'
import { unpackBundle } from '../../src/suites/bundle-unpack.ts'
import { temporaryFile, temporaryFolder } from '../support/temporary-folder.ts'

const PACK_BOUNDS = { bytesMax: 10_000_000, filesMax: 100 }
const BOUNDS = { unpackedBytesMax: 1_000_000, filesMax: 50 }

function suite(): string {
  const folder = temporaryFolder()
  fs.mkdirSync(join(folder, 'tests/deep'), { recursive: true })
  fs.mkdirSync(join(folder, 'node_modules/left'), { recursive: true })
  fs.writeFileSync(join(folder, 'node_modules/left/out.js'), 'x')
  for (const name of ['.env', '.env.local', '.env.staging.local'])
    fs.writeFileSync(join(folder, name), 'TOKEN=secret')
  fs.writeFileSync(join(folder, 'empty'), '')
  fs.writeFileSync(join(folder, 'tests/deep/a ü.spec.ts'), 'test()')
  fs.writeFileSync(join(folder, 'large.bin'), randomBytes(300_000))
  fs.writeFileSync(join(folder, 'run.sh'), '#!/bin/sh')
  fs.chmodSync(join(folder, 'run.sh'), 0o755)
  fs.symlinkSync('../large.bin', join(folder, 'tests/link'))
  return folder
}

const packed = (folder: string, bounds = {}) =>
  packBundle(folder, join(temporaryFolder(), 'bundle.tar.gz'), { ...PACK_BOUNDS, ...bounds })

async function unpacked(
  bundle: string,
  folder = temporaryFolder(),
  { signal } = new AbortController(),
): Promise<string> {
  await unpackBundle(bundle, folder, BOUNDS, signal)
  return folder
}

describe('packing', () => {
  test('gives the folder again, without what is made anew', async () => {
    const folder = suite()
    const back = await unpacked((await packed(folder)).path)
    const names = fs.readdirSync(back, { recursive: true, encoding: 'utf8' }).toSorted()
    const all = 'empty|large.bin|run.sh|tests|tests/deep|tests/deep/a ü.spec.ts|tests/link'
    expect(names).toEqual(all.split('|'))
    const of = (name: string, where: string) => fs.readFileSync(join(where, name))
    expect(of('large.bin', back).equals(of('large.bin', folder))).toBe(true)
    expect(of('tests/deep/a ü.spec.ts', back).toString()).toBe('test()')
    expect(fs.readlinkSync(join(back, 'tests/link'))).toBe('../large.bin')
    expect(fs.statSync(join(back, 'run.sh')).mode & 0o777).toBe(0o755)
  })

  test('is the same bundle whenever and by whomever it is packed', async () => {
    const folder = suite()
    const first = await packed(folder)
    fs.utimesSync(join(folder, 'empty'), 1, 1)
    fs.chmodSync(join(folder, 'empty'), 0o600)
    const second = await packed(folder)
    expect(second.sha256).toBe(first.sha256)
    fs.writeFileSync(join(folder, 'empty'), 'no more')
    expect((await packed(folder)).sha256).not.toBe(first.sha256)
  })

  test('refuses a link that leads out, and more than it may hold', async () => {
    const folder = suite()
    await expect(packed(folder, { bytesMax: 1000 })).rejects.toThrow(/at most 1000/)
    await expect(packed(folder, { filesMax: 2 })).rejects.toThrow(/more than 2 files/)
    fs.symlinkSync('../../etc/passwd', join(folder, 'out'))
    await expect(packed(folder)).rejects.toThrow(/points outside/)
  })
})

async function hostile(fill: (tar: Pack) => void): Promise<string> {
  const path = join(temporaryFolder(), 'bundle.tar.gz')
  const tar = pack()
  fill(tar)
  tar.finalize()
  await pipeline(tar, createGzip(), fs.createWriteStream(path))
  return path
}

type Link = 'symlink' | 'link'
const link = (linkname: string, type: Link = 'symlink', name = 'a') => ({ name, type, linkname })

const HOSTILE: [sentence: string, fill: (tar: Pack) => void, says: RegExp][] = [
  ['a path that climbs', (tar) => tar.entry({ name: '../evil' }, 'x'), /points outside/],
  ['a path that climbs later', (tar) => tar.entry({ name: 'a/../../evil' }, 'x'), /points outside/],
  ['an absolute path', (tar) => tar.entry({ name: '/tmp/evil' }, 'x'), /points outside/],
  ['a link that leads out', (tar) => tar.entry(link('../..')), /points outside/],
  ['a link out through another', (tar) => chained(tar, { e: 'a/b/c/up/..' }), /points outside/],
  ['a file below it', (tar) => chained(tar, { e: 'a/b/c/up/..', 'e/x': 'a' }), /below a link/],
  ['an absolute link', (tar) => tar.entry(link('/etc')), /points outside/],
  ['a hard link', (tar) => tar.entry(link('/etc/passwd', 'link')), /a link/],
  ['a device', (tar) => tar.entry({ name: 'a', type: 'character-device' }), /character-device/],
  ['a pipe', (tar) => tar.entry({ name: 'a', type: 'fifo' }), /fifo/],
  ['two files of one path', (tar) => files(tar, ['a', './a']), /two files/],
  ['too many files', (tar) => files(tar, [...Array(60).keys()]), /more than 50 files/],
  ['a file through its own link', (tar) => through(tar), /ENOENT|EEXIST|ENOTDIR|two files/],
  ['too much', (tar) => tar.entry({ name: 'a' }, Buffer.alloc(1_000_001)), /more than 1000000/],
  ['a path without end', (tar) => tar.entry({ name: 'x/'.repeat(2000) }, 'x'), /too long/],
]

/** `a/b/c/up` is the folder itself, though it reads as one far below. */
function chained(tar: Pack, links: Record<string, string>): void {
  for (const [name, linkname] of Object.entries({ 'a/b/c/up': '../../..', ...links })) {
    tar.entry(link(linkname, 'symlink', name))
  }
}

function files(tar: Pack, names: unknown[]): void {
  for (const name of names) tar.entry({ name: String(name) }, 'x')
}

function through(tar: Pack): void {
  tar.entry(link('c', 'symlink', 'b'))
  tar.entry({ name: 'b/evil' }, 'x')
}

describe('a hostile bundle is refused:', () => {
  test.each(HOSTILE)('%s', async (_, fill, says) => {
    const outside = temporaryFolder()
    const folder = join(outside, 'inside')
    fs.mkdirSync(folder)
    await expect(unpacked(await hostile(fill), folder)).rejects.toThrow(says)
    expect(fs.readdirSync(outside)).toEqual(['inside'])
    expect(fs.existsSync('/tmp/evil')).toBe(false)
  })

  test.each([
    ['no gzip', Buffer.from('hello')],
    ['no tar', gzipSync(randomBytes(4096))],
    ['one that was cut', gzipSync(randomBytes(9000)).subarray(0, 5000)],
  ])('%s', async (_, bytes) => {
    const unpacking = unpacked(temporaryFile('b', bytes))
    await expect(unpacking).rejects.toThrow(/not a tar.gz, or it is damaged/)
  })
})

test('unpacking ends when it is aborted', async () => {
  const stop = new AbortController()
  const path = await hostile((tar) => tar.entry({ name: 'a' }, randomBytes(900_000)))
  const work = unpacked(path, undefined, stop)
  stop.abort(new Error('enough'))
  await expect(work).rejects.toThrow('enough')
})
