# The program, its configurations and its completion for bash, which it prints itself; cpack -G DEB makes a package of
# them. The program finds its configurations relative to its own path, so the whole may be moved.
include(GNUInstallDirs)
install(TARGETS periscope RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY experiments/configs DESTINATION ${CMAKE_INSTALL_DATADIR}/periscope)
install(FILES ${CMAKE_BINARY_DIR}/completions/periscope
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES LICENSE CITATION.cff README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

set(CPACK_PACKAGE_CONTACT "The Periscope authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "laboratory for the placement of normalization layers in Transformers")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_STRIP_FILES ON)
include(CPack)
