// Aim: what holds user code, and what is missing with its fix, is known before the first run.
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createSandbox } from '../../src/sandbox/sandbox.ts'
import { trySandbox } from '../../src/sandbox/trial.ts'
import { withoutNamespaces } from '../support/needs.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import type { Sandbox, SandboxEnd } from '../../src/sandbox/request.ts'

const ALL = { ownUser: true, landlock: 7, network: true }

/** A sandbox in which a run ends like this. */
function sandboxWith(end: Partial<SandboxEnd>, said = ''): Sandbox {
  const ended = Promise.resolve({ tail: { stdout: said, stderr: '' }, ...end } as SandboxEnd)
  return { alwaysEnforcesNetwork: false, userIds: [], run: () => ended, close: () => {} }
}

const layers = (less: object) => ({ layers: { ...ALL, ...less } })
const BOTH = 'namespaces\nexecutes\n'
const NOTHING_RUNS = { outcome: 'sandbox-failed', problem: 'root without CAP_SETUID' } as const

test.each<[string, Partial<SandboxEnd>, said: string, hasChromium: boolean, RegExp[]]>([
  ['nothing where all holds', layers({}), BOTH, true, []],
  ['nothing of Chromium where there is none', layers({}), 'executes\n', false, []],
  ['that Chromium has no sandbox', layers({}), 'executes\n', true, [/Chromium.*seccomp\.json/]],
  ['of connections', layers({ network: false }), BOTH, true, [/seccomp.*seccomp\.json/]],
  ['of files', layers({ ownUser: false, landlock: 0 }), BOTH, true, [/Landlock.*seccomp\.json/]],
  ['what users can read', layers({ landlock: 0 }), BOTH, true, [/Landlock/]],
  ['that programs cannot be started', layers({}), 'namespaces\n', true, [/exec/]],
  ['why no code runs', NOTHING_RUNS, '', true, [/cannot be run.*CAP_SETUID/]],
])('says %s', async (_, end, said, hasChromium, missing) => {
  const root = temporaryFolder()
  const trial = await trySandbox(sandboxWith(end, said), { root, hasChromium })
  expect(trial.missing).toHaveLength(missing.length)
  missing.forEach((requirement, index) => expect(trial.missing[index]).toMatch(requirement))
  expect(readdirSync(root)).toEqual([])
})

test('says why where there is no room for a trial', async () => {
  const root = join(temporaryFolder(), 'none')
  const sandbox = sandboxWith({ layers: ALL }, 'executes\n')
  const trial = await trySandbox(sandbox, { root, hasChromium: false })
  expect(trial.missing[0]).toMatch(/ENOENT/)
  expect(existsSync(root)).toBe(false)
})

test('sees what this system has', async () => {
  const network = { blocked: [], allowed: [] }
  const sandbox = createSandbox({ network, isolation: 'best', firstUserId: 64_700 })
  const trial = await trySandbox(sandbox, { root: temporaryFolder(), hasChromium: false })
  sandbox.close()
  expect(trial.missing.filter((requirement) => /exec/.test(requirement))).toEqual([])
  expect(trial).toMatchObject({
    layers: { ownUser: process.getuid?.() === 0 },
    namespaces: withoutNamespaces() === undefined,
  })
})
