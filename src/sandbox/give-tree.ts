// Hands a folder that the agent has filled to the user that will run in it.
import { lchown, lstat, opendir } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * Makes the user the owner of the folder and all that is in it, links themselves included and what they
 * lead to not. A file that has another name elsewhere stays as it is: it is not the run's alone.
 */
export async function giveTree(folder: string, userId: number): Promise<void> {
  for await (const entry of await opendir(folder)) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) await giveTree(path, userId)
    else if ((await lstat(path)).nlink === 1) await lchown(path, userId, userId)
  }
  await lchown(folder, userId, userId)
}
