// The package manager of a project is the one whose lock file it has, where it has it: in the working folder, or
// above it in a workspace.
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

test.each<[string, Record<string, string>, string]>([
  ['npm', { 'package-lock.json': '{}' }, 'npm@11'],
  ['pnpm of an old lock file', { 'pnpm-lock.yaml': `lockfileVersion: '6.0'\n` }, 'pnpm@8'],
  ['pnpm of an older lock file', { 'pnpm-lock.yaml': 'lockfileVersion: 5.4\n' }, 'pnpm@8'],
  ['pnpm of a lock file of today', { 'pnpm-lock.yaml': `lockfileVersion: '9.0'\n` }, 'pnpm@10'],
  ['pnpm as it is named', { ...PNPM, 'pnpm-lock.yaml': `lockfileVersion: '9.0'\n` }, 'pnpm@9'],
  ['yarn 1', { 'yarn.lock': '# yarn lockfile v1\n' }, 'yarn@1'],
  ['yarn 3', { 'yarn.lock': '__metadata:\n  version: 6\n' }, 'yarn@3'],
  ['yarn 4', { 'yarn.lock': '# made\n\n__metadata:\n  version: 8\n' }, 'yarn@4'],
  ['yarn as it is named', { 'package.json': '{"packageManager":"yarn@4.1.0"}' }, 'yarn@4'],
  ['bun', { 'bun.lock': '{}' }, 'bun@1.3'],
])('%s comes in the version that understands the lock file', async (_, files, manager) => {
  expect((await packages(files))?.manager).toBe(manager)
})

const PNPM_LOCK = { 'pnpm-lock.yaml': '' }
const NPM_LOCK = { 'package-lock.json': '{}' }

test.each<[string, Record<string, string>, command: string | undefined, folder?: string]>([
  ['npm, exactly as locked', NPM_LOCK, 'npm ci'],
  ['npm by its older name', { 'npm-shrinkwrap.json': '{}' }, 'npm ci'],
  ['pnpm', PNPM_LOCK, 'pnpm install --frozen-lockfile'],
  ['yarn 1', { 'yarn.lock': '# yarn lockfile v1' }, 'yarn install --frozen-lockfile'],
  ['yarn 4', { 'yarn.lock': '__metadata:\n  version: 8\n' }, 'yarn install --immutable'],
  ['bun', { 'bun.lock': '{}' }, 'bun install --frozen-lockfile'],
  ['bun with a binary lock file', { 'bun.lockb': '' }, 'bun install --frozen-lockfile'],
  ['the one that is named', { ...PNPM, ...NPM_LOCK, ...PNPM_LOCK }, 'pnpm install --frozen'],
  ['a lock file above', { 'e2e/package.json': '{}', ...PNPM_LOCK }, 'pnpm install --frozen', ''],
  ['a lock file in place', { 'e2e/yarn.lock': '', ...NPM_LOCK }, 'yarn install', '/e2e'],
  ['no lock file', { 'package.json': '{}' }, 'npm install'],
  ['no lock file, and a tool that is named', PNPM, 'pnpm install'],
  ['no package.json', { 'a.spec.ts': '' }, undefined],
])('%s', async (_, files, command, folder = '') => {
  const found = await packages(files)
  expect(found?.command.slice(0, command?.length)).toBe(command)
  expect(found?.folder ?? '').toBe(folder)
})
