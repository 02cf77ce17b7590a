// Aim: `vedette doctor` reports the state of the machine (disk, ICMP, browser, engines and sandbox) with the fix, as
// root and as an unprivileged user; and no probe delays the others.
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { probeDisk } from '../../../src/cli/doctor/disk.ts'
import { runProbes } from '../../../src/cli/doctor/finding.ts'
import { AS_NOBODY } from '../../support/as-nobody.ts'
import { examine, type Examined, onFile } from '../../support/agent/doctor-process.ts'
import { eventually } from '../../support/eventually.ts'
import { missing } from '../../support/needs.ts'
import { createNetworkNamespace } from '../../support/network/network-namespace.ts'
import { startVedette } from '../../support/platform/platform-process.ts'
import { mountSmallDisk } from '../../support/small-disk.ts'
import { temporaryFile, temporaryFolder } from '../../support/temporary-folder.ts'

const isRoot = process.getuid?.() === 0
/** Tests that do not run as root are unprivileged already. */
const asNobody = isRoot ? AS_NOBODY : []

const program = (text: string, mode = 0o755) =>
  temporaryFile('program', `#!/bin/sh\n${text}\n`, mode)

describe('the disk', () => {
  const config = {
    spoolBytesMax: 256 * 1024 * 1024,
    monitorsFile: undefined,
    platformUrl: 'http://127.0.0.1:1',
  }
  const at = (dataDir: string) => ({ ...config, dataDir, workRoot: join(dataDir, 'work') })

  function smallDisk(options: string): string {
    const { folder: disk, remove } = mountSmallDisk(options)
    onTestFinished(remove)
    return disk
  }

  test('of another user: the fix changes the owner', async () => {
    const folder = temporaryFolder()
    chmodSync(folder, 0o555)
    const said = await examine({ env: { ...onFile(), DATA_DIR: folder }, prefix: asNobody })
    expect(said.code).toBe(1)
    expect(said.found('disk')).toMatchObject({
      standing: 'broken',
      fix: expect.stringContaining('chown') as string,
      facts: { problem: 'EACCES' },
    })
  })

  test('in memory and of another user: the fix is the mount option', async ({ skip }) => {
    skip(!isRoot, 'needs root, to mount it')
    const env = { ...onFile(), DATA_DIR: smallDisk('mode=755,size=16m'), VEDETTE_IMAGE: 'agent' }
    const said = await examine({ env, prefix: asNobody })
    expect(said.found('disk')).toMatchObject({ standing: 'broken', facts: { problem: 'EACCES' } })
    expect(said.found('disk')?.fix).toMatch(/uid=65534,gid=65534,/)
  })

  test('the folder of agents is another user’s', async () => {
    const folder = temporaryFolder()
    chmodSync(folder, 0o777)
    mkdirSync(join(folder, 'agents'), { mode: 0o500 })
    const said = await examine({ env: { ...onFile(), DATA_DIR: folder }, prefix: asNobody })
    expect(said.found('disk')?.says).toContain(join(folder, 'agents'))
    expect(said.code).toBe(1)
  })

  test.for([
    ['full: nothing can be stored', 'size=64k', 'broken', 'ENOSPC', /larger volume/],
    ['read-only: the fix is a volume', 'ro,size=16m', 'broken', 'EROFS', /volume/],
    ['without a file left', 'size=16m,nr_inodes=1', 'broken', 'ENOSPC', /larger volume/],
    ['with few files left', 'size=512m,nr_inodes=100', 'warning', undefined, /larger volume/],
    [
      'smaller than what waits while the platform is away',
      'size=16m',
      'warning',
      undefined,
      /SPOOL_BYTES_MAX=\d+MiB/,
    ],
    ['large enough', 'size=512m', 'works', undefined, /^$/],
  ] as const)('%s', async ([, options, standing, problem, fix], { skip }) => {
    skip(!isRoot, 'needs root, to mount a small disk')
    const disk = smallDisk(options)
    if (options === 'size=64k') writeFileSync(join(disk, 'filler'), Buffer.alloc(60 * 1024))
    const before = readdirSync(disk)
    const [found] = await probeDisk(at(disk))
    expect([found?.standing, found?.facts?.['problem']]).toEqual([standing, problem])
    expect(found?.fix ?? '').toMatch(fix)
    expect(readdirSync(disk)).toEqual(before)
  })

  test('a missing folder is not created', async () => {
    const folder = join(temporaryFolder(), 'not', 'there')
    const [found] = await probeDisk(at(folder))
    expect(found).toMatchObject({ standing: 'works' })
    expect(found?.says).toContain('can be made')
    expect(existsSync(folder)).toBe(false)
  })
})

describe('ICMP', () => {
  test('forbidden to an unprivileged user: the fix is the kernel parameter', async ({ skip }) => {
    skip(!isRoot, 'needs root, to make a network in which it is forbidden')
    const network = createNetworkNamespace()
    onTestFinished(() => network.remove())
    const prefix = [...network.prefix, ...AS_NOBODY]
    const said = await examine({ env: onFile(), prefix })
    const fix = expect.stringContaining('net.ipv4.ping_group_range="0 2147483647"') as string
    expect(said.code).toBe(1)
    expect(said.found('icmp')).toMatchObject({ standing: 'broken', fix })
    expect(said.found('traceroute')).toMatchObject({
      standing: 'broken',
      fix,
      facts: { TCP: true, UDP: true, ICMP: false, SCTP: false },
    })
  })

  test('allowed by that parameter, without privileges', async ({ skip }) => {
    skip(!isRoot, 'needs root, to make a network in which it is allowed')
    const network = createNetworkNamespace()
    onTestFinished(() => network.remove())
    const allow = 'sysctl -qw net.ipv4.ping_group_range="0 2147483647"'
    execFileSync(network.prefix[0] ?? '', [...network.prefix.slice(1), 'sh', '-c', allow])
    const said = await examine({ env: onFile(), prefix: [...network.prefix, ...AS_NOBODY] })
    expect(said.found('icmp')).toMatchObject({
      standing: 'works',
      facts: { socket: 'datagram', raw: 'EPERM' },
    })
    expect(said.found('traceroute')?.standing).toBe('works')
  })
})

describe('the browser', () => {
  const browser = (said: Examined) => said.found('browser')

  test.each([
    ['is not there', () => '/nowhere/chromium', /no program at \/nowhere\/chromium/],
    ['may not be started', () => program('exit 0', 0o644), /no program at/],
    ['ends at once', () => program('echo no libnss3.so >&2; exit 127'), /127.*libnss3/],
    ['shows nothing', () => program('echo Chromium 1.2.3'), /does not start/],
  ])('that CHROMIUM_PATH names %s', async (_, path, says) => {
    const said = await examine({ env: { ...onFile(), CHROMIUM_PATH: path() } })
    expect(said.code).toBe(1)
    expect(browser(said)).toMatchObject({
      standing: 'broken',
      says: expect.stringMatching(says) as string,
      fix: expect.any(String) as string,
    })
  })

  test.for([
    ['the user of the tests', []],
    ['a user without any right', asNobody],
  ] as const)('starts, for %s, and leaves nothing behind', async ([, prefix], { skip }) => {
    const why = missing('chromium')
    skip(why !== undefined, why)
    const folder = temporaryFolder()
    chmodSync(folder, 0o777)
    const env = { ...onFile(), CHROMIUM_PATH: '/usr/bin/chromium', DATA_DIR: folder }
    const said = await examine({ env, prefix })
    expect(browser(said)).toMatchObject({
      standing: 'works',
      facts: { version: expect.stringMatching(/\d+\.\d+\.\d+/) as string },
    })
    expect(readdirSync(folder)).toEqual([])
  })
})

test('interrupted, it ends at once and leaves no process', async () => {
  const folder = temporaryFolder()
  const env = { ...onFile(), DATA_DIR: folder, CHROMIUM_PATH: program('exec sleep 60') }
  const doctor = startVedette(['doctor'], { AGENT_HEALTH_PORT: '0', ...env })
  await eventually(() => readdirSync(folder).length > 0)
  doctor.kill('SIGINT')
  expect(await doctor.ended).toMatchObject({ code: 130, stdout: '' })
  expect(readdirSync(folder)).toEqual([])
})

describe('engines and the sandbox', () => {
  /** A folder of tools with one engine. */
  function tools(script: string): string {
    const folder = temporaryFolder()
    const own = join(folder, 'engines', 'node@24')
    mkdirSync(own, { recursive: true })
    writeFileSync(join(own, 'installed.json'), '{"program":"node","missing":[]}')
    writeFileSync(join(own, 'node'), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
    return folder
  }

  test('one that starts: its version is shown, and the sandbox is probed', async () => {
    const env = { ...onFile(), TOOLS_DIR: tools('echo v24.9.9') }
    const said = await examine({ env })
    expect(said.found('engines')).toMatchObject({ standing: 'works' })
    expect(said.found('engines')?.says).toContain('node@24 (24.9.9)')
    expect(said.found('sandbox')?.facts).toMatchObject({ ownUser: isRoot })
  })

  test('one that does not start: the fix installs it again', async () => {
    const said = await examine({ env: { ...onFile(), TOOLS_DIR: tools('exit 9') } })
    expect(said.code).toBe(1)
    expect(said.found('engines')).toMatchObject({
      standing: 'broken',
      fix: 'vedette engine install node@24 --again',
    })
  })

  test('root without its capabilities: the fix is another user', async ({ skip }) => {
    skip(!isRoot, 'needs root')
    const prefix = ['setpriv', '--inh-caps=-all', '--bounding-set=-all']
    const said = await examine({ env: { ...onFile(), TOOLS_DIR: tools('echo v24.9.9') }, prefix })
    expect(said.code).toBe(1)
    expect(said.found('sandbox')).toMatchObject({
      standing: 'broken',
      fix: expect.stringMatching(/--user|runAsUser|sudo -u/) as string,
    })
  })

  test('folders of runs in which no program starts: the fix is exec', async ({ skip }) => {
    skip(!isRoot, 'needs root, to mount a disk')
    const { folder: disk, remove } = mountSmallDisk('noexec,size=16m,mode=755')
    onTestFinished(remove)
    const env = { ...onFile(), TOOLS_DIR: tools('echo v24.9.9'), DATA_DIR: disk }
    const said = await examine({ env })
    expect(said.found('sandbox')).toMatchObject({
      standing: 'warning',
      fix: expect.stringContaining('exec') as string,
    })
    expect(readdirSync(disk)).toEqual([])
  })
})

describe('probes', () => {
  const fine = { id: 'disk', standing: 'works', says: 'fine' } as const
  const never = new AbortController().signal

  test('one that never ends is a finding of its own, and does not delay the others', async () => {
    const deaf = { id: 'browser', run: () => new Promise<never>(() => {}) } as const
    const found = await runProbes([deaf, { id: 'disk', run: async () => [fine] }], 50, never)
    expect(found.map(({ id, standing }) => [id, standing])).toEqual([
      ['disk', 'works'],
      ['browser', 'broken'],
    ])
  })

  test('one whose signal is aborted at the deadline may still report its findings', async () => {
    const run = async (signal: AbortSignal) => {
      await once(signal, 'abort')
      return [fine]
    }
    expect(await runProbes([{ id: 'disk', run }], 50, never)).toEqual([fine])
  })

  test('one that fails is a finding of its own', async () => {
    const bad = { id: 'clock', run: () => Promise.reject(new Error('a fault')) } as const
    expect(await runProbes([bad], 1000, never)).toMatchObject([
      { id: 'clock', standing: 'broken', says: expect.stringContaining('a fault') as string },
    ])
  })
})
