// The package manager of a project is that of its lock file, in the working folder or above it.
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { packagesOf } from '../../../src/suites/packages/package-manager.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

async function packages(files: Record<string, string>) {
  const folder = temporaryFolder()
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  const found = await packagesOf([join(folder, 'e2e'), folder])
  return found && { ...found, folder: found.folder.slice(folder.length) }
}

const PNPM = { 'package.json': '{"packageManager":"pnpm@9.1.0"}' }
const YARN = { 'package.json': '{"packageManager":"yarn@4.1.0"}' }
const PNPM_LOCK = { 'pnpm-lock.yaml': `lockfileVersion: '9.0'\n` }
const NPM_LOCK = { 'package-lock.json': '{}' }
const PNPM_CI = 'pnpm install --frozen-lockfile'
const YARN_1_CI = 'yarn install --frozen-lockfile'
const YARN_CI = 'yarn install --immutable'
const BUN_CI = 'bun install --frozen-lockfile'

test.each<[string, Record<string, string>, manager?: string, command?: string, folder?: string]>([
  ['npm', NPM_LOCK, 'npm@11', 'npm ci'],
  ['npm by its older name', { 'npm-shrinkwrap.json': '{}' }, 'npm@11', 'npm ci'],
  ['pnpm 5.4', { 'pnpm-lock.yaml': 'lockfileVersion: 5.4\n' }, 'pnpm@8', PNPM_CI],
  ['pnpm 6', { 'pnpm-lock.yaml': `lockfileVersion: '6.0'\n` }, 'pnpm@8', PNPM_CI],
  ['pnpm 9', PNPM_LOCK, 'pnpm@10', PNPM_CI],
  ['pnpm as it is named', { ...PNPM, ...PNPM_LOCK }, 'pnpm@9', PNPM_CI],
  ['yarn 1', { 'yarn.lock': '# yarn lockfile v1\n' }, 'yarn@1', YARN_1_CI],
  ['yarn 3', { 'yarn.lock': '__metadata:\n  version: 6\n' }, 'yarn@3', YARN_CI],
  ['yarn 4', { 'yarn.lock': '# made\n\n__metadata:\n  version: 8\n' }, 'yarn@4', YARN_CI],
  ['yarn as it is named', YARN, 'yarn@4', 'yarn install'],
  ['bun', { 'bun.lock': '{}' }, 'bun@1.3', BUN_CI],
  ['bun with a binary lock file', { 'bun.lockb': '' }, 'bun@1.3', BUN_CI],
  ['the one that is named', { ...PNPM, ...NPM_LOCK, ...PNPM_LOCK }, 'pnpm@9', PNPM_CI],
  ['a lock file above', { 'e2e/package.json': '{}', ...PNPM_LOCK }, 'pnpm@10', PNPM_CI, ''],
  ['a lock file in place', { 'e2e/yarn.lock': '', ...NPM_LOCK }, 'yarn@1', YARN_1_CI, '/e2e'],
  ['no lock file', { 'package.json': '{}' }, 'npm@11', 'npm install'],
  ['no lock file, and a tool that is named', PNPM, 'pnpm@9', 'pnpm install'],
  ['no package.json', { 'a.spec.ts': '' }],
])('%s', async (_, files, manager, command, folder = '') => {
  const found = await packages(files)
  const start = found?.command.slice(0, command?.length)
  expect([found?.manager, start, found?.folder ?? '']).toEqual([manager, command, folder])
})
