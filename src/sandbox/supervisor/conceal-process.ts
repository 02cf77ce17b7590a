// Keeps this process to itself: processes of the same user can otherwise read its environment, its memory
// and its open files in /proc.
import { prctl, PR_SET_DUMPABLE } from '../../network/native/syscalls.ts'

/** From now on only the system's administrator may look into this process. Throws where it can't be had. */
export function concealProcess(): void {
  prctl(PR_SET_DUMPABLE, 0)
}
