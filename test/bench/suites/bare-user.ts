// The user of the bare side of a bench: without privileges, with a persistent home, and with the system's Chromium
// under Playwright's names, as after `playwright install`.
import { mkdir, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { findChromium, findProgram } from '../../../src/scripts/chromium.ts'
import { giveTree } from '../../../src/sandbox/trees.ts'
import { prepareBrowsers } from '../../../src/scripts/playwright/browsers.ts'

const USER_ID = 64_299
const isRoot = process.getuid?.() === 0

/** For `spawn`: another user, where this process may change to one. */
export function bareUser(): { uid?: number; gid?: number } {
  return isRoot ? { uid: USER_ID, gid: USER_ID } : {}
}

/** Gives a folder to that user. */
export async function giveToBare(folder: string): Promise<void> {
  if (isRoot) await giveTree(folder, USER_ID)
}

/** Makes the home. */
export async function bareHome(folder: string): Promise<string> {
  const home = join(folder, 'home')
  await mkdir(home)
  await giveToBare(home)
  return home
}

/** The folder for PLAYWRIGHT_BROWSERS_PATH of the Playwright in `core`. */
export async function bareBrowsers(folder: string, core: string): Promise<string> {
  const chromium = await findChromium(undefined)
  if (chromium === undefined) throw new Error('the bench needs Chromium')
  const at = join(folder, 'browsers')
  const ffmpeg = await findProgram('ffmpeg')
  await prepareBrowsers(at, core, { chromium, ffmpeg })
  // Without the wrapper that Vedette uses.
  await rm(join(at, 'chromium'))
  await symlink(chromium, join(at, 'chromium'))
  return at
}
