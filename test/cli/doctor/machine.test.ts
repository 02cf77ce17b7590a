// Aim: `vedette doctor` finds the state of the machine and names the fix; no probe delays the others.
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { readAgentConfig } from '../../../src/agent/config.ts'
import { probeDisk } from '../../../src/cli/doctor/disk.ts'
import { runProbes } from '../../../src/cli/doctor/finding.ts'
import { probeHealthPort } from '../../../src/cli/doctor/health-port.ts'
import { probeBrowser, probeSandbox } from '../../../src/cli/doctor/sandbox.ts'
import { probeTools } from '../../../src/cli/doctor/tools.ts'
import { openToolchains } from '../../../src/scripts/toolchains.ts'
import { json } from '../../support/agent/fake-platform.ts'
import { AS_NOBODY } from '../../support/as-nobody.ts'
import { examine, onFile } from '../../support/cli/doctor-process.ts'
import { mountSmallDisk } from '../../support/small-disk.ts'
import { temporaryFile, temporaryFolder } from '../../support/temporary-folder.ts'
import { startHttpServer } from '../../support/test-server.ts'

const isRoot = process.getuid?.() === 0
const never = new AbortController().signal

const configOf = (env: Record<string, string>) =>
  readAgentConfig({ env: { MONITORS_FILE: 'monitors.yaml', ...env }, stdout: {} }).config

const program = (text: string, mode = 0o755) =>
  temporaryFile('program', `#!/bin/sh\n${text}\n`, mode)

function smallDisk(options: string): string {
  const { folder, remove } = mountSmallDisk(options)
  onTestFinished(remove)
  return folder
}

/** Runs as a user without rights where we are root, who may write everywhere. */
async function asNobody<T>(action: () => Promise<T>): Promise<T> {
  if (!isRoot) return action()
  process.seteuid?.(65_534)
  return action().finally(() => process.seteuid?.(0))
}

describe('the disk', () => {
  const OF_ROOT = 'mode=755,size=16m'
  const platform = { monitorsFile: undefined, platformUrl: 'http://127.0.0.1:1' }
  const spoolBytesMax = 256 * 1024 * 1024
  const at = (dataDir: string) => {
    return { ...platform, spoolBytesMax, dataDir, workRoot: join(dataDir, 'work') }
  }

  test('of another user: the fix changes the owner; a missing one is not created', async () => {
    const folder = temporaryFolder()
    chmodSync(folder, 0o555)
    const [found] = await asNobody(() => probeDisk(at(folder)))
    expect(found).toMatchObject({ standing: 'broken', facts: { problem: 'EACCES' } })
    expect(found?.fix).toContain('chown')
    const missing = join(temporaryFolder(), 'not', 'there')
    const says = expect.stringContaining('can be created') as string
    expect(await probeDisk(at(missing))).toMatchObject([{ standing: 'works', says }])
    expect(existsSync(missing)).toBe(false)
  })

  test('with a folder of agents of another user', async () => {
    const folder = temporaryFolder()
    chmodSync(folder, 0o777)
    mkdirSync(join(folder, 'agents'), { mode: 0o500 })
    // access(2) looks at the real user.
    const prefix = isRoot ? AS_NOBODY : []
    const said = await examine({ env: { ...onFile(), DATA_DIR: folder }, prefix })
    const says = expect.stringContaining(join(folder, 'agents')) as string
    expect(said.found('disk')).toMatchObject({ standing: 'broken', says })
  })

  test.for([
    ['of another user: the fix is an option', OF_ROOT, 'broken', 'EACCES', /uid=65534,/],
    ['full: nothing can be stored', 'size=64k', 'broken', 'ENOSPC', /larger volume/],
    ['read-only: the fix is a volume', 'ro,size=16m', 'broken', 'EROFS', /volume/],
    ['without a file left', 'size=16m,nr_inodes=1', 'broken', 'ENOSPC', /larger volume/],
    ['with few files left', 'size=512m,nr_inodes=100', 'warning', undefined, /larger volume/],
    ['smaller than the spool', 'size=16m', 'warning', undefined, /SPOOL_BYTES_MAX=\d+MiB/],
    ['large enough', 'size=512m', 'works', undefined, /^$/],
  ] as const)('%s', async ([, options, standing, problem, fix], { skip }) => {
    skip(!isRoot, 'needs root, to mount a small disk')
    const disk = smallDisk(options)
    if (options === 'size=64k') writeFileSync(join(disk, 'filler'), Buffer.alloc(60 * 1024))
    const before = readdirSync(disk)
    const probe = () => probeDisk(at(disk))
    const [found] = await (options === OF_ROOT ? asNobody(probe) : probe())
    expect([found?.standing, found?.facts?.['problem']]).toEqual([standing, problem])
    expect(found?.fix ?? '').toMatch(fix)
    expect(readdirSync(disk)).toEqual(before)
  })
})

test('the health port of another program: the fix is the next one', async () => {
  await using other = await startHttpServer((_, response) =>
    json(response, { status: 'fine', reasons: [] }),
  )
  const probe = (healthPort: number, healthHost?: string) =>
    probeHealthPort({ healthPort, healthHost }, never)
  const fix = `set AGENT_HEALTH_PORT=${other.port + 1}`
  expect(await probe(other.port)).toMatchObject([{ standing: 'broken', fix }])
  expect(await probe(other.port, '127.0.0.2')).toMatchObject([{ standing: 'works' }])
  // An address that this machine does not have.
  const host = expect.stringContaining('AGENT_HEALTH_HOST') as string
  for (const port of [0, 8081]) {
    expect(await probe(port, '192.0.2.1')).toMatchObject([{ standing: 'broken', fix: host }])
  }
})

test.each([
  ['is not there', () => '/nowhere/chromium', /no program at \/nowhere\/chromium/],
  ['may not be started', () => program('exit 0', 0o644), /no program at/],
  ['ends at once', () => program('echo no libnss3.so >&2; exit 127'), /127.*libnss3/],
  ['shows nothing', () => program('echo Chromium 1.2.3'), /does not start/],
])('a browser that CHROMIUM_PATH names and that %s', async (_, path, says) => {
  const config = configOf({ CHROMIUM_PATH: path(), DATA_DIR: temporaryFolder() })
  const [found] = await probeBrowser({ config, runsCode: false, signal: never })
  expect(found).toMatchObject({ standing: 'broken', fix: expect.any(String) as string })
  expect(found?.says).toMatch(says)
})

describe('engines and the sandbox', () => {
  const engines = (script?: string) => {
    const folder = temporaryFolder()
    if (script !== undefined) {
      const own = join(folder, 'engines', 'node@24')
      mkdirSync(own, { recursive: true })
      writeFileSync(join(own, 'installed.json'), '{"program":"node","missing":[]}')
      writeFileSync(join(own, 'node'), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
    }
    return probeTools('engine', openToolchains(folder, 'agent-uptime'), never)
  }

  test.each([
    ['one that starts', 'echo v24.9.9', 'works', 'node@24 (24.9.9)', undefined],
    ['one that does not', 'exit 9', 'broken', 'code 9', 'vedette engine install node@24 --again'],
    ['none in the image', undefined, 'absent', 'not in this image', undefined],
  ])('%s', async (_, script, standing, says, fix) => {
    expect(await engines(script)).toMatchObject([
      { standing, says: expect.stringContaining(says) as string, ...(fix && { fix }) },
    ])
  })

  const sandboxIn = (dataDir: string, runsCode = true) =>
    probeSandbox({ config: configOf({ DATA_DIR: dataDir }), runsCode, signal: never })

  test('its layers are found where something runs in it, and it leaves nothing behind', async () => {
    const folder = temporaryFolder()
    expect(await sandboxIn(folder)).toMatchObject([{ facts: { ownUser: isRoot } }])
    expect(readdirSync(folder)).toEqual([])
    expect(await sandboxIn(folder, false)).toMatchObject([{ standing: 'absent' }])
  })

  test('folders of runs in which no program starts: the fix is exec', async ({ skip }) => {
    skip(!isRoot, 'needs root, to mount a disk')
    const disk = smallDisk('noexec,size=16m,mode=755')
    const fix = expect.stringContaining('exec') as string
    expect(await sandboxIn(disk)).toMatchObject([{ standing: 'warning', fix }])
    expect(readdirSync(disk)).toEqual([])
  })
})

describe('probes', () => {
  const fine = { id: 'disk', standing: 'works', says: 'fine' } as const

  test('one that never ends or fails is a finding of its own, and does not delay the others', async () => {
    const deaf = { id: 'browser', run: () => new Promise<never>(() => {}) } as const
    const bad = { id: 'clock', run: () => Promise.reject(new Error('a fault')) } as const
    const good = { id: 'disk', run: async () => [fine] } as const
    const says = expect.stringContaining('a fault') as string
    expect(await runProbes([deaf, good, bad], 50, never)).toEqual(
      expect.arrayContaining([
        fine,
        expect.objectContaining({ id: 'clock', standing: 'broken', says }),
        expect.objectContaining({ id: 'browser', standing: 'broken' }),
      ]),
    )
  })

  test('one whose signal is aborted at the deadline may still report its findings', async () => {
    const run = async (signal: AbortSignal) => {
      await once(signal, 'abort')
      return [fine]
    }
    expect(await runProbes([{ id: 'disk', run }], 50, never)).toEqual([fine])
  })
})
