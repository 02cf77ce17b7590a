// Aim: what holds user code, and what is missing with its fix, is known before the first run.
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createSandbox, type Sandbox, type SandboxEnd } from '../../src/sandbox/sandbox.ts'
import { trySandbox } from '../../src/sandbox/trial.ts'
import { withoutNamespaces } from '../support/needs.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const ALL = { ownUser: true, landlock: 7, network: true }

/** A sandbox in which a run ends like this. */
function sandboxWith(end: Partial<SandboxEnd>, said = ''): Sandbox {
  const ended = Promise.resolve({ tail: { stdout: said, stderr: '' }, ...end } as SandboxEnd)
  return { alwaysEnforcesNetwork: false, userIds: [], run: () => ({ ended }), close: () => {} }
}

test.each<[string, Sandbox, boolean, RegExp[]]>([
  ['nothing where all holds', sandboxWith({ layers: ALL }, 'namespaces\nexecutes\n'), true, []],
  [
    'that Chromium goes without its own sandbox',
    sandboxWith({ layers: ALL }, 'executes\n'),
    true,
    [/Chromium.*seccomp=docker\/seccomp\.json/],
  ],
  [
    'nothing of Chromium where there is none',
    sandboxWith({ layers: ALL }, 'executes\n'),
    false,
    [],
  ],
  [
    'that connections are not enforced',
    sandboxWith({ layers: { ...ALL, network: false } }, 'namespaces\nexecutes\n'),
    true,
    [/seccomp.*docker\/seccomp\.json/],
  ],
  [
    'that files are open to the agent’s own user',
    sandboxWith({ layers: { ...ALL, ownUser: false, landlock: 0 } }, 'namespaces\nexecutes\n'),
    true,
    [/Landlock.*docker\/seccomp\.json/],
  ],
  [
    'that users can read what is not confined',
    sandboxWith({ layers: { ...ALL, landlock: 0 } }, 'namespaces\nexecutes\n'),
    true,
    [/Landlock/],
  ],
  [
    'that programs in the folders of runs cannot be started',
    sandboxWith({ layers: ALL }, 'namespaces\n'),
    true,
    [/exec/],
  ],
  [
    'why no code runs at all',
    sandboxWith({
      outcome: 'sandbox-failed',
      problem: 'the agent runs as root without CAP_SETUID',
    }),
    true,
    [/cannot be run.*CAP_SETUID/],
  ],
])('says %s', async (_, sandbox, hasChromium, missing) => {
  const root = temporaryFolder()
  const trial = await trySandbox(sandbox, { root, hasChromium })
  expect(trial.missing).toHaveLength(missing.length)
  missing.forEach((requirement, index) => expect(trial.missing[index]).toMatch(requirement))
  expect(readdirSync(root)).toEqual([])
})

test('says why where there is no room for a trial', async () => {
  const root = join(temporaryFolder(), 'none')
  const trial = await trySandbox(sandboxWith({ layers: ALL }, 'executes\n'), {
    root,
    hasChromium: false,
  })
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
